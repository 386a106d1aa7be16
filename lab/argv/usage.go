package argv

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"homelab/lab"
)

// SetDefaults sets lab's usage errors on all commands, and disables `help` subcommands, which would capture an argument.
func SetDefaults(commands []*cli.Command) {
	for _, c := range commands {
		c.OnUsageError = UsageError
		c.HideHelpCommand = true
		if len(c.Subcommands) > 0 && c.Action == nil {
			c.Action = NoCommand
		}
		c.CustomHelpTemplate = cli.CommandHelpTemplate
		if len(c.Subcommands) > 0 {
			c.CustomHelpTemplate = cli.SubcommandHelpTemplate // lists the subcommands
		}
		SetDefaults(c.Subcommands)
	}
}

// UsageError returns an error of the command line that refers to the help.
func UsageError(c *cli.Context, err error, _ bool) error {
	return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: firstToLower(err.Error()), Cure: helpFor(c)}
}

func helpFor(c *cli.Context) string {
	name := strings.TrimSpace(c.Command.HelpName)
	if name == "" {
		name = "lab"
	}
	return "see " + name + " --help"
}

// NoCommand is the action of a command with subcommands: it shows help, or rejects an unknown subcommand.
func NoCommand(c *cli.Context) error {
	if word := c.Args().First(); word != "" {
		e := &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("no such command: %q", word), Cure: helpFor(c)}
		commands := c.App.Commands
		if len(c.Command.Subcommands) > 0 {
			commands = c.Command.Subcommands
		}
		if near := cli.SuggestCommand(commands, word); near != "" {
			e.Cure = strings.TrimSuffix(firstToLower(near), "?")
		}
		return e
	}
	if len(c.Command.Subcommands) > 0 && c.Command.Name != c.App.Name {
		return cli.ShowSubcommandHelp(c)
	}
	return cli.ShowAppHelp(c)
}

func firstToLower(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// NoArgs rejects arguments.
func NoArgs(c *cli.Context) error {
	if c.Args().Present() {
		return UsageError(c, fmt.Errorf("%s takes no argument, got %q", c.Command.HelpName, c.Args().First()), true)
	}
	return nil
}

// AnyArgs accepts any arguments.
func AnyArgs(*cli.Context) error { return nil }

// ExactlyOne requires exactly one argument.
func ExactlyOne(word, example string) func(*cli.Context) error {
	return func(c *cli.Context) error {
		if c.NArg() != 1 {
			return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: c.Command.HelpName + " takes " + word, Cure: c.Command.HelpName + " " + example}
		}
		return nil
	}
}

// OneOf requires a flag to have one of the given values.
func OneOf(c *cli.Context, flag string, words ...string) error {
	if v := c.String(flag); v != "" && !slices.Contains(words, v) {
		return UsageError(c, fmt.Errorf("--%s takes %s, got %q", flag, strings.Join(words, " or "), v), true)
	}
	return nil
}

// Count returns a check of the number of arguments, described by what.
func Count(what string, fit func(n int) bool) func(*cli.Context) error {
	return func(c *cli.Context) error {
		if fit(c.NArg()) {
			return nil
		}
		return UsageError(c, fmt.Errorf("%s takes %s", c.Command.HelpName, what), true)
	}
}
