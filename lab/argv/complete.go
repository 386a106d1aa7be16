package argv

import (
	"flag"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Asked is a word to complete, with its placeholder in the help.
type Asked struct {
	Placeholder string
	Word        string // typed so far

	command *cli.Command
	flags   []string
}

// Flag returns the value of a flag, from the command line under any name or from the environment, or "".
func (a Asked) Flag(wanted *cli.StringFlag) string { return flagOf(a.command, a.flags, wanted) }

// Next completes a comma-separated list: it returns the word followed by each missing name.
func (a Asked) Next(names []string) []string {
	before := a.Word[:strings.LastIndex(a.Word, ",")+1]
	var list []string
	for _, name := range names {
		if !slices.Contains(strings.Split(before, ","), name) {
			list = append(list, before+name)
		}
	}
	return list
}

// Complete returns the completions of the last word of a command line, some followed by a colon and a description.
// Files and free text are not completed. values returns the values of a placeholder.
func Complete(app *cli.App, line []string, values func(Asked) []string) []string {
	if len(line) == 0 {
		line = []string{""}
	}
	before, word := line[:len(line)-1], line[len(line)-1]
	command, at := named(app, append([]string{app.Name}, before...))
	rest := before[at-1:]
	commands := app.Commands
	if command != nil {
		commands = command.Subcommands
	}
	switch {
	case len(commands) > 0 && len(rest) == 0:
		var list []string
		for _, c := range commands {
			list = append(list, c.Name+":"+c.Usage)
		}
		return list
	case len(commands) > 0:
		return nil
	}
	return words(command, rest, word, values)
}

// words returns the completions of a command's word after rest.
func words(command *cli.Command, rest []string, word string, values func(Asked) []string) []string {
	flags, given := sorted(command, rest)
	if n := len(rest); n > 0 && len(rest[n-1]) > 1 && rest[n-1][0] == '-' && takesValue(command, rest[n-1]) {
		name := strings.TrimLeft(rest[n-1], "-")
		for _, f := range command.Flags {
			if slices.Contains(f.Names(), name) {
				return values(Asked{Placeholder: placeholder(f), Word: word, command: command, flags: flags[:len(flags)-1]})
			}
		}
	}
	if strings.HasPrefix(word, "-") {
		return flagsLeft(command, flags)
	}
	args := strings.Fields(command.ArgsUsage)
	if len(args) == 0 {
		return nil
	}
	one, many := strings.CutSuffix(strings.Trim(args[min(len(given), len(args)-1)], "[]"), "...")
	if len(given) >= len(args) && !many {
		return nil
	}
	if list := strings.Split(one, "|"); len(list) > 1 {
		return list
	}
	return slices.DeleteFunc(values(Asked{Placeholder: one, Word: word, command: command, flags: flags}), func(w string) bool { return slices.Contains(given, w) })
}

// flagsLeft returns the unused and the repeatable flags of a command.
func flagsLeft(command *cli.Command, given []string) []string {
	var list []string
	for _, f := range command.Flags {
		_, again := f.(*cli.StringSliceFlag)
		used := slices.ContainsFunc(f.Names(), func(name string) bool {
			return slices.ContainsFunc(given, func(g string) bool { return strings.TrimLeft(g, "-") == name })
		})
		if described, ok := f.(cli.DocGenerationFlag); ok && (again || !used) {
			list = append(list, "--"+f.Names()[0]+":"+strings.ReplaceAll(described.GetUsage(), "`", ""))
		}
	}
	return append(list, "--help:show help")
}

// placeholder returns the capitalised word for a flag's value in its help.
func placeholder(f cli.Flag) string {
	described, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return ""
	}
	m := regexp.MustCompile("`([A-Z]+)").FindStringSubmatch(described.GetUsage())
	if m == nil {
		return ""
	}
	return m[1]
}

func flagOf(command *cli.Command, given []string, wanted *cli.StringFlag) string {
	set := flag.NewFlagSet(command.Name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	for _, f := range command.Flags {
		if f.Apply(set) != nil {
			return ""
		}
	}
	if set.Lookup(wanted.Name) == nil && wanted.Apply(set) != nil {
		return ""
	}
	if err := set.Parse(given); err != nil {
		return ""
	}
	value := set.Lookup(wanted.Name).Value.String()
	set.Visit(func(f *flag.Flag) {
		if slices.Contains(wanted.Names(), f.Name) {
			value = f.Value.String()
		}
	})
	return value
}
