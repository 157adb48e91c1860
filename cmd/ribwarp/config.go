package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// applyConfig sets the flags of cmd that the command line left alone from the file --config.
//
// The file has a table for each command whose keys are the command's flags, and the flags of all
// commands at the top. A flag that can be repeated is an array:
//
//	log-level = "warn"
//
//	[serve]
//	listen = "127.0.0.1:8080"
//	asn = 64500
//	peer = ["192.0.2.1,asn=64501", "192.0.2.2,asn=64502,passive"]
//
//	[rib.info]
//	json = true
//
// What of serve is more than a flag can say is in sections (sections.go). A key that is neither is
// an error, in the tables of other commands too.
func (a *app) applyConfig(cmd *cobra.Command) error {
	if a.configFile == "" {
		return nil
	}
	if info, err := os.Stat(a.configFile); a.again && err == nil && !info.Mode().IsRegular() {
		return runError{fmt.Errorf("config %s: it is no regular file, so it can be read once only", a.configFile)}
	}
	text, err := os.ReadFile(a.configFile)
	if err != nil {
		return runError{fmt.Errorf("config: %w", err)}
	}
	a.onCommandLine = make(map[string]bool)
	cmd.Flags().Visit(func(f *pflag.Flag) { a.onCommandLine[f.Name] = true })
	var file map[string]any
	if _, err := toml.Decode(string(text), &file); err != nil {
		return runError{fmt.Errorf("config %s: %w", a.configFile, readable(err))}
	}
	if a.sections, err = decodeSections(string(text)); err != nil {
		return runError{fmt.Errorf("config %s: %w", a.configFile, err)}
	}
	c := config{file: a.configFile, running: cmd}
	return c.apply(cmd.Root(), "", file)
}

type config struct {
	file    string
	running *cobra.Command
}

// apply goes through the table of a command and those of its subcommands. path is the table's
// name with a dot behind it.
func (c config) apply(cmd *cobra.Command, path string, table map[string]any) error {
	for _, key := range sortedKeys(table) {
		value := table[key]
		if path == serveName+"." && isSection(key) {
			continue // decodeSections has it
		}
		if sub, ok := value.(map[string]any); ok {
			child := subcommand(cmd, key)
			switch {
			case child == nil && path == serveName+".":
				return runError{fmt.Errorf("config %s: [%s%s]: there is no such section: %s", c.file, path, key, instead(key, sectionNames))}
			case child == nil:
				return runError{fmt.Errorf("config %s: [%s%s]: there is no such command: %s", c.file, path, key, instead(key, commandNames(cmd)))}
			}
			if err := c.apply(child, path+key+".", sub); err != nil {
				return err
			}
			continue
		}
		flag := ownFlag(cmd, key)
		if flag == nil && path != "" && ownFlag(cmd.Root(), key) != nil {
			return runError{fmt.Errorf("config %s: key %q: it is for all commands: write %s above the first table", c.file, path+key, key)}
		}
		if flag == nil {
			return runError{fmt.Errorf("config %s: unknown key %q: %s has no such flag: %s", c.file, path+key, cmd.CommandPath(), instead(key, c.keys(cmd, path)))}
		}
		if cmd != c.running && cmd.HasParent() {
			continue
		}
		if err := setFlag(c.running, flag, value); err != nil {
			return runError{fmt.Errorf("config %s: key %q: %w", c.file, path+key, err)}
		}
	}
	return nil
}

func commandNames(cmd *cobra.Command) (names []string) {
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return names
}

// keys are those that the table of a command may have.
func (c config) keys(cmd *cobra.Command, path string) (keys []string) {
	flags := cmd.LocalNonPersistentFlags()
	if !cmd.HasParent() {
		flags = cmd.PersistentFlags()
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if ownFlag(cmd, f.Name) != nil {
			keys = append(keys, f.Name)
		}
	})
	if path == serveName+"." {
		keys = append(keys, sectionNames...)
	}
	slices.Sort(keys)
	return slices.Compact(keys) // peer is a flag and a section
}

func subcommand(cmd *cobra.Command, name string) *cobra.Command {
	i := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
	if i < 0 {
		return nil
	}
	return cmd.Commands()[i]
}

// ownFlag gives the flag that a command declares itself and that a file can sensibly set.
func ownFlag(cmd *cobra.Command, name string) *pflag.Flag {
	if name == "help" || name == "config" || name == "check" {
		return nil
	}
	if !cmd.HasParent() {
		return cmd.PersistentFlags().Lookup(name)
	}
	return cmd.LocalNonPersistentFlags().Lookup(name)
}

// setFlag sets a flag from the file unless the command line did.
func setFlag(running *cobra.Command, flag *pflag.Flag, value any) error {
	if running.Flags().Changed(flag.Name) {
		return nil
	}
	values, isArray := value.([]any)
	if _, repeats := flag.Value.(pflag.SliceValue); isArray && !repeats {
		return fmt.Errorf("it is an array, but the flag is given once")
	}
	if !isArray {
		values = []any{value}
	}
	for _, v := range values {
		switch v.(type) {
		case string, int64, float64, bool:
		default:
			return fmt.Errorf("%v is not a string, number or boolean", v)
		}
		if err := running.Flags().Set(flag.Name, fmt.Sprint(v)); err != nil {
			if is := flagTypes[flag.Value.Type()]; is != "" {
				return fmt.Errorf("%#v is no %s", v, is)
			}
			return err
		}
	}
	return nil
}

// flagTypes are the types of flags in words.
var flagTypes = map[string]string{
	"bool": "boolean: give true or false", "int": "number", "uint": "number from 0 on", "uint32": "number from 0 to 4294967295",
	"uint64": "number from 0 on", "duration": `time such as "90s", "5m" or "24h"`,
}

func sortedKeys[V any](table map[string]V) []string {
	keys := make([]string, 0, len(table))
	for k := range table {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, strings.Compare)
	return keys
}
