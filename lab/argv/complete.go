package argv

import (
	"flag"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Asked is what a word is wanted for: something that the help calls by a word in capitals.
type Asked struct {
	Placeholder string
	Word        string // as far as it is written

	command *cli.Command
	flags   []string
}

// Flag is the value of a flag of the line, by whatever name it is given, else by the environment; empty where neither has one.
func (a Asked) Flag(wanted *cli.StringFlag) string { return flagOf(a.command, a.flags, wanted) }

// Next completes a list with commas: it returns the names that the word lacks, after what it has.
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

// Complete returns what the last word of a command line may become, each with what it means after a colon where that needs saying. There is nothing where a
// file is wanted, or anything at all. values knows what may stand for a placeholder.
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

// words are what a word of a command may be, after others.
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
	args := strings.Trim(command.ArgsUsage, "[]")
	one, many := strings.CutSuffix(args, "...")
	if len(given) > 0 && !many {
		return nil
	}
	if list := strings.Split(one, "|"); len(list) > 1 {
		return list
	}
	return slices.DeleteFunc(values(Asked{Placeholder: one, Word: word, command: command, flags: flags}), func(w string) bool { return slices.Contains(given, w) })
}

// flagsLeft are the flags of a command that are not given yet, and those that may be given again.
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

// placeholder is the word in capitals by which a flag's help speaks of its value.
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

// flagOf is the value of a flag, by whatever name it is given, else by the environment; empty where neither has one.
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
