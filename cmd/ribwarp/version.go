package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/ribwarp/ribwarp/api"
)

// version is set by the linker for releases: -ldflags "-X main.version=v1.2.3".
var version = ""

// buildVersion gives the version of this build, and the commit and its date where they are known.
func buildVersion() api.Build {
	b := api.Build{Version: version}
	if info, ok := debug.ReadBuildInfo(); ok {
		if b.Version == "" {
			b.Version = info.Main.Version
		}
		modified := false
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.time":
				b.Date = s.Value
			case "vcs.modified":
				modified = s.Value == "true"
			}
		}
		if modified {
			b.Commit += "+changes"
		}
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	return b
}

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  ribwarp version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := buildVersion()
			if asJSON {
				return json.NewEncoder(a.stdout).Encode(map[string]string{
					"version": b.Version, "commit": b.Commit, "date": b.Date, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
			}
			v := b.Version
			if b.Commit != "" {
				v += " (" + b.Commit + ")"
			}
			_, err := fmt.Fprintf(a.stdout, "ribwarp %s, %s, %s/%s\n", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}
