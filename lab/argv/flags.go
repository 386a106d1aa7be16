// Package argv reorders flags of a command line, completes words, and reports usage errors.
package argv

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// FlagsFirst moves flags before the words of a command, as urfave/cli requires
// (https://github.com/urfave/cli/issues/427). Arguments after -- are unchanged. With --help, words are dropped:
// urfave/cli would take the first for a command.
func FlagsFirst(app *cli.App, args []string) []string {
	command, at := named(app, args)
	if command == nil || len(command.Subcommands) > 0 {
		return args
	}
	flags, words := sorted(command, args[at:])
	if slices.Contains(flags, "--help") || slices.Contains(flags, "-h") {
		words = nil
	}
	out := append(slices.Clone(args[:at]), flags...)
	if slices.ContainsFunc(words, func(w string) bool { return len(w) > 1 && w[0] == '-' }) {
		out = append(out, "--")
	}
	return append(out, words...)
}

// sorted separates flags, with their values, from words.
func sorted(command *cli.Command, rest []string) (flags, words []string) {
	for i := 0; i < len(rest); i++ {
		switch word := rest[i]; {
		case word == "--":
			return flags, append(words, rest[i+1:]...)
		case len(word) < 2 || word[0] != '-':
			words = append(words, word)
		default:
			flags = append(flags, word)
			if takesValue(command, word) && i+1 < len(rest) {
				i++
				flags = append(flags, rest[i])
			}
		}
	}
	return flags, words
}

// named returns the command named by the first words, or nil, and the index of its arguments.
func named(app *cli.App, args []string) (*cli.Command, int) {
	commands := app.Commands
	var command *cli.Command
	at := min(1, len(args))
	for ; at < len(args); at++ {
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(args[at]) })
		if i < 0 {
			break
		}
		command, commands = commands[i], commands[i].Subcommands
	}
	return command, at
}

// takesValue reports whether the word after a flag is its value; for -xyz, whether it is z's.
func takesValue(c *cli.Command, word string) bool {
	name := strings.TrimLeft(word, "-")
	if strings.Contains(name, "=") {
		return false
	}
	known := func(name string) (bool, bool) {
		for _, f := range c.Flags {
			if slices.Contains(f.Names(), name) {
				_, isBool := f.(*cli.BoolFlag)
				return true, !isBool
			}
		}
		return false, false
	}
	if is, takes := known(name); is {
		return takes
	}
	if strings.HasPrefix(word, "--") {
		return false
	}
	_, takes := known(name[len(name)-1:])
	return takes
}

// WantsJSON reports whether a command line asks for JSON, without parsing it.
func WantsJSON(args []string) bool {
	for i, a := range args {
		switch a {
		case "-o=json", "--output=json", "-output=json", "-ojson":
			return true
		case "-o", "--output", "-output":
			return i+1 < len(args) && args[i+1] == "json"
		}
	}
	return false
}
