package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailed  = 1
	exitUsage   = 2
	exitTrouble = 2 // of rib diff, as of diff(1)
)

// A usageError is about how the program was called: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// A runError is what a command ended with once it ran: exit code 1. What cobra itself reports
// (an unknown command or flag, arguments that a command does not take) is about usage.
type runError struct{ error }

func (e runError) Unwrap() error { return e.error }

// A troubleError ends a command whose exit code 1 says something else: exit code 2.
type troubleError struct{ error }

func (e troubleError) Unwrap() error { return e.error }

// errReported ends a command with exit code 1 where everything was said on stderr already.
var errReported = errors.New("failed")

// An app is one call of the program: its streams and what all commands share.
type app struct {
	args           []string // behind the program's name
	stdin          io.Reader
	stdout, stderr io.Writer
	configFile     string
	logLevel       string
	logFormat      string
	log            *slog.Logger
	level          slog.LevelVar // of log
	again          bool          // the command line is read another time, for a reload
	sections       *sections     // of the configuration file; nil without one
	// onCommandLine are the flags that a configuration file does not set.
	onCommandLine map[string]bool
	// serve is what the command serve does: runServe, but where the command line is read again.
	serve func(context.Context, *serveOptions) error
}

func runContext(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{args: args, stdin: &interruptible{ctx: ctx, from: stdin}, stdout: stdout, stderr: stderr, log: slog.New(slog.DiscardHandler)}
	a.serve = a.runServe
	root := a.command()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	var usage usageError
	var ran runError
	var trouble troubleError
	failed := exitFailed
	if errors.As(err, &trouble) {
		failed = exitTrouble
	}
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errReported):
		return exitFailed
	case errors.As(err, &usage) || !errors.As(err, &ran):
		fmt.Fprintf(stderr, "ribwarp: %v\nRun \"%s --help\" for its use.\n", err, cmd.CommandPath())
		return exitUsage
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintf(stderr, "ribwarp: interrupted: %v\n", err)
		return failed
	}
	fmt.Fprintf(stderr, "ribwarp: %v\n", err)
	return failed
}

// command makes the tree of commands.
func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "ribwarp",
		Short: "Which route carries this address?",
		Long: `ribwarp answers which route carries an address: for single addresses over HTTP and
for whole files of them, from routes that it learns by peering with BGP routers or
reads from MRT dumps and text lists.

Results go to stdout, logs and progress to stderr. "-" is stdin or stdout.
Exit codes: 0 done, 1 failed, 2 called wrongly; rib diff has those of diff(1).`,
		Example: `  ribwarp demo
  ribwarp lookup --rib table.mrt.gz 192.0.2.1 2001:db8::1
  ribwarp batch --rib table.mrt.gz --in addresses.txt --out routes.csv
  ribwarp serve --listen 127.0.0.1:8080 --asn 64500 --router-id 192.0.2.10 \
      --peer 192.0.2.1,asn=64501,import=accept`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.applyConfig(cmd); err != nil {
				return err
			}
			level, err := parseLevel(a.logLevel)
			if err != nil {
				return a.wrongLog("log-level", err)
			}
			a.level.Set(level)
			if a.log, err = newLogger(a.stderr, &a.level, a.logFormat); err != nil {
				return a.wrongLog("log-format", err)
			}
			return nil
		},
	}
	pf := root.PersistentFlags()
	pf.StringVar(&a.configFile, "config", "", "read flags from this TOML `FILE`: a table for each command; flags given here win")
	pf.StringVar(&a.logLevel, "log-level", "info", "log from this `LEVEL` on: debug, info, warn or error")
	pf.StringVar(&a.logFormat, "log-format", "text", "log as text or json")
	root.AddCommand(
		a.serveCommand(), a.demoCommand(), a.lookupCommand(), a.batchCommand(), a.ribCommand(),
		a.igpCommand(), a.genCommand(), a.benchCommand(), a.tuneCommand(), a.devicesCommand(), a.versionCommand(),
	)
	markRuns(root)
	return root
}

// markRuns wraps what commands return, so that it can be told from cobra's own errors.
func markRuns(cmd *cobra.Command) {
	if runE := cmd.RunE; runE != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := runE(cmd, args); err != nil {
				return runError{err}
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		markRuns(sub)
	}
}

// group makes a command that only has subcommands.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usagef("%s needs one of its commands", cmd.CommandPath())
		},
	}
	cmd.AddCommand(subs...)
	return cmd
}

// wrongLog says that a flag of all commands is wrong, or the key of the configuration file.
func (a *app) wrongLog(flag string, err error) error {
	if a.sections != nil && !a.onCommandLine[flag] {
		return runError{fmt.Errorf("config %s: key %q: %w", a.configFile, flag, err)}
	}
	return usagef("--%s %w", flag, err)
}

func parseLevel(text string) (level slog.Level, err error) {
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return 0, fmt.Errorf("%q: use debug, info, warn or error", text)
	}
	return level, nil
}

func newLogger(w io.Writer, level slog.Leveler, format string) (*slog.Logger, error) {
	o := &slog.HandlerOptions{Level: level}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, fmt.Errorf("%q: use text or json", format)
}

// isTerminal says whether a person watches w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
