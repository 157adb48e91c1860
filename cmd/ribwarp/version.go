package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker for releases: -ldflags "-X main.version=v1.2.3".
var version = ""

// buildVersion gives the version of this build, and the commit it was made of where it is known.
func buildVersion() (v, commit string) {
	v = version
	if info, ok := debug.ReadBuildInfo(); ok {
		if v == "" {
			v = info.Main.Version
		}
		modified := false
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				commit = s.Value
			case "vcs.modified":
				modified = s.Value == "true"
			}
		}
		if modified {
			commit += "+changes"
		}
	}
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	return v, commit
}

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  ribwarp version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v, commit := buildVersion()
			if asJSON {
				return json.NewEncoder(a.stdout).Encode(map[string]string{
					"version": v, "commit": commit, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
			}
			if commit != "" {
				v += " (" + commit + ")"
			}
			_, err := fmt.Fprintf(a.stdout, "ribwarp %s, %s, %s/%s\n", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}
