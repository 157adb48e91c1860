package snapshot

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// temporary is the end of the names that replace writes to. Before it stand the file's own name, a
// dot and a random number.
const temporary = ".tmp"

// replace puts what write writes in the place of a file: beside it, to the disk, and renamed, so
// that there is the old file or the new one at any moment. A file that is no saved generation
// stays, and the error is ErrForeign.
func replace(path string, write func(io.Writer) error) (err error) {
	if err := mayReplace(path); err != nil {
		return err
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*"+temporary)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
		_ = f.Close()
	}()
	if err := lock(f); err != nil {
		return err
	}
	if err := write(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir) // the rename, too, is to survive a loss of power
}

// mayReplace looks whether a file is one of ours, whatever became of it.
func mayReplace(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: no regular file: choose another path", ErrForeign)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var start [len(magic)]byte
	n, err := io.ReadFull(f, start[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if string(start[:n]) != magic[:n] {
		return fmt.Errorf("%w: it starts with %q: remove it or choose another path", ErrForeign, start[:n])
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}

// lock marks a temporary file as being written. The lock goes with whoever holds it, so that what
// a crash left behind is told from what another process is writing.
func lock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// removeTemporary removes what interrupted saves of a file have left beside it, and names it.
func removeTemporary(path string) (removed []string, err error) {
	dir, prefix := filepath.Dir(path), filepath.Base(path)+"."
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		number, ours := strings.CutPrefix(e.Name(), prefix)
		number, ends := strings.CutSuffix(number, temporary)
		if !ours || !ends || number == "" || strings.Trim(number, "0123456789") != "" || !e.Type().IsRegular() {
			continue
		}
		name := filepath.Join(dir, e.Name())
		f, openErr := os.Open(name)
		if openErr != nil {
			err = errors.Join(err, openErr)
			continue
		}
		if lock(f) == nil {
			if removeErr := os.Remove(name); removeErr != nil {
				err = errors.Join(err, removeErr)
			} else {
				removed = append(removed, name)
			}
		}
		_ = f.Close()
	}
	return removed, err
}

// Check says why a file could not be saved there: its folder is missing or may not be written to, or
// it is no saved generation. Nothing is written.
func Check(path string) error {
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s: its folder %s is not there: make it", path, dir)
	case err != nil:
		return fmt.Errorf("%s: its folder: %w", path, err)
	case !info.IsDir():
		return fmt.Errorf("%s: %s is no folder", path, dir)
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("%s: files in its folder %s cannot be made: %w", path, dir, err)
	}
	if err := mayReplace(path); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
