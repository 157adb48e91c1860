package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"

	"github.com/BurntSushi/toml"
)

// setInConfig sets string keys of a table of a configuration file, which is made if it is not there. All else in
// it stays as it is, comments and order too, and so do its mode and its owner.
func setInConfig(path, table string, keys map[string]string) error {
	after, err := configWith(path, table, keys)
	if err != nil {
		return err
	}
	if err := replaceText(behindLinks(path), after); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	return nil
}

// replaceText puts a text in the place of a file, so that there is the old one or the new one at any moment, and who could read
// it still can: a service whose configuration belongs to root afterwards does not start again.
func replaceText(path, text string) (err error) {
	mode, was := os.FileMode(0o644), (*syscall.Stat_t)(nil)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
		was, _ = info.Sys().(*syscall.Stat_t)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.partial")
	if err != nil {
		return err
	}
	defer func() {
		_ = f.Close() // a second time where all went well
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if was != nil {
		if err := f.Chown(int(was.Uid), int(was.Gid)); err != nil {
			return fmt.Errorf("%s cannot keep its owner: %w; write as that one, or as root", path, err)
		}
	}
	if err := f.Chmod(mode); err != nil { // also what the umask takes from new files
		return err
	}
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// configWith gives what setInConfig writes.
func configWith(path, table string, keys map[string]string) (string, error) {
	switch info, err := os.Stat(path); {
	case err == nil && !info.Mode().IsRegular() && !info.IsDir(): // a pipe would be waited for, and a device replaced
		return "", fmt.Errorf("config %s: it is no regular file: choose another path", path)
	case err != nil:
		if _, linkErr := os.Lstat(path); linkErr == nil {
			return "", fmt.Errorf("config %s: the file that it links to: %w", path, err)
		}
	}
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("config: %w", err)
	}
	after, err := setKeys(string(before), table, keys)
	if err != nil {
		return "", fmt.Errorf("config %s: %w", path, err)
	}
	return after, nil
}

// behindLinks gives the file that a path leads to, so that a link stays one when the file is replaced.
func behindLinks(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return path
}

var (
	tomlHeader = regexp.MustCompile(`^\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?\r?\n?$`)
	tomlArray  = regexp.MustCompile(`^\s*\[\[`)
	tomlString = regexp.MustCompile(`^(\s*"?([A-Za-z0-9_-]+)"?\s*=\s*)("[^"\\]*"|'[^']*')(\s*(?:#.*)?\r?\n?)$`)
)

// setKeys changes the text of a TOML file. The lines of the keys get other values, or lines come behind the
// table's header, which comes to the end if it is not there. The text is then read once more: what is written in a
// way that this does not know, such as a table within braces, is an error and stays as it is.
func setKeys(text, table string, keys map[string]string) (string, error) {
	var was map[string]any
	if _, err := toml.Decode(text, &was); err != nil {
		return "", err
	}
	lines := strings.SplitAfter(text, "\n")
	end := "\n"
	if strings.Contains(text, "\r\n") {
		end = "\r\n"
	}
	left := maps.Clone(keys)
	header, inside := -1, false
	for i, line := range lines {
		if m := tomlHeader.FindStringSubmatch(line); m != nil {
			if inside = strings.Trim(m[1], `"' `) == table; inside {
				header = i
			}
			continue
		}
		if tomlArray.MatchString(line) {
			inside = false
		}
		if m := tomlString.FindStringSubmatch(line); m != nil && inside {
			if value, ok := left[m[2]]; ok {
				lines[i] = m[1] + `"` + value + `"` + m[4]
				delete(left, m[2])
			}
		}
	}
	added := ""
	for _, key := range sortedKeys(left) {
		added += fmt.Sprintf("%s = %q%s", key, left[key], end)
	}
	switch {
	case added == "":
	case header >= 0:
		if !strings.HasSuffix(lines[header], "\n") {
			lines[header] += end
		}
		lines[header] += added
	default:
		last := len(lines) - 1
		if lines[last] != "" {
			lines[last] += end
		}
		if text != "" {
			lines[last] += end
		}
		lines[last] += "[" + table + "]" + end + added
	}
	after := strings.Join(lines, "")
	var is map[string]any
	if _, err := toml.Decode(after, &is); err != nil || !onlyChanged(was, is, table, keys) {
		return "", fmt.Errorf("cannot change [%s] without changing more: write %s there by hand", table, strings.TrimSpace(strings.ReplaceAll(added, end, "; ")))
	}
	return after, nil
}

// onlyChanged tells whether two files differ by nothing but the given keys of a table.
func onlyChanged(was, is map[string]any, table string, keys map[string]string) bool {
	want := maps.Clone(was)
	if want == nil {
		want = map[string]any{}
	}
	inside, _ := want[table].(map[string]any)
	inside = maps.Clone(inside)
	if inside == nil {
		inside = map[string]any{}
	}
	for key, value := range keys {
		inside[key] = value
	}
	want[table] = inside
	return reflect.DeepEqual(want, is)
}
