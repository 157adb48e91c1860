package main

import (
	"fmt"
	"io"
	"os"
)

// An output is a result on its way: stdout, or a file that appears under its name only when it
// is whole. Until then it is NAME.partial. What is no regular file (a pipe, a device) is written
// directly.
type output struct {
	io.Writer
	file    *os.File // nil for stdout
	path    string
	partial string // "" where path is written directly
}

func (a *app) createOutput(path string) (*output, error) {
	if path == "-" {
		return &output{Writer: a.stdout}, nil
	}
	o := &output{path: path, partial: path + ".partial"}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return nil, fmt.Errorf("create output: %s is a directory", path)
	}
	if err == nil && !info.Mode().IsRegular() {
		o.partial = ""
		o.file, err = os.OpenFile(path, os.O_WRONLY, 0)
	} else {
		o.file, err = os.Create(o.partial)
	}
	if err != nil {
		return nil, fmt.Errorf("create output: %w", err)
	}
	o.Writer = o.file
	return o, nil
}

// tryOutput tells before long work whether createOutput will do. It leaves nothing, and what is no regular file alone.
func (a *app) tryOutput(path string) error {
	if info, err := os.Stat(path); path == "-" || err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil
	}
	o, err := a.createOutput(path)
	if err != nil {
		return err
	}
	_ = o.file.Close()
	return os.Remove(o.partial)
}

// commit finishes the output under its name.
func (o *output) commit() error {
	if o.file == nil {
		return nil
	}
	if err := o.file.Close(); err != nil {
		return fmt.Errorf("write %s: %w", o.path, err)
	}
	if o.partial == "" {
		return nil
	}
	if err := os.Rename(o.partial, o.path); err != nil {
		return fmt.Errorf("finish output: %w; the result is whole in %s", err, o.partial)
	}
	return nil
}

// abandon leaves the output as far as it came and says where, for the end of an error message.
func (o *output) abandon() string {
	if o.file == nil {
		return ""
	}
	_ = o.file.Close()
	if o.partial == "" {
		return ""
	}
	return fmt.Sprintf("; what there is is in %s", o.partial)
}
