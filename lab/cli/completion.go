package cli

import (
	"cmp"
	"context"
	"embed"
	"flag"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/scenario"
	"homelab/lab/snapshot"
	"homelab/lab/state"
	"homelab/lab/workspace"
)

// completeFlag is what a shell's script puts after the words of a command line, the one being written last: the program answers with what that may become, so the
// scripts never go stale.
const completeFlag = "--generate-completion"

//go:embed completion
var completions embed.FS

func (p *program) completionCommand() *cli.Command {
	return &cli.Command{
		Name:        "completion",
		Usage:       "print the completion script of a shell",
		ArgsUsage:   "bash|zsh|fish",
		Description: examples("source <(lab completion bash)", "lab completion zsh > ~/.zfunc/_lab", "lab completion fish | source"),
		Action: func(c *cli.Context) error {
			script, err := completions.ReadFile("completion/lab." + c.Args().First())
			if err != nil || c.NArg() != 1 {
				return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "lab completion takes the name of a shell", Cure: "lab completion bash, zsh or fish"}
			}
			p.ui.Raw(string(script))
			return nil
		},
	}
}

// complete prints what the last word of a command line may become, each with what it means after a colon where that needs saying. Nothing is printed where a
// file is wanted, or anything at all.
func (p *program) complete(app *cli.App, line []string) {
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
		for _, c := range commands {
			p.ui.Raw(c.Name + ":" + c.Usage + "\n")
		}
		return
	case len(commands) > 0:
		return
	}
	for _, w := range p.words(command, rest, word) {
		p.ui.Raw(w + "\n")
	}
}

// words are what a word of a command may be, after others.
func (p *program) words(command *cli.Command, rest []string, word string) []string {
	flags, given := sorted(command, rest)
	if n := len(rest); n > 0 && len(rest[n-1]) > 1 && rest[n-1][0] == '-' && takesValue(command, rest[n-1]) {
		name := strings.TrimLeft(rest[n-1], "-")
		for _, f := range command.Flags {
			if slices.Contains(f.Names(), name) {
				return p.values(command, flags[:len(flags)-1], placeholder(f), word)
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
	return slices.DeleteFunc(p.values(command, flags, one, word), func(w string) bool { return slices.Contains(given, w) })
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

// values are what may stand for a placeholder of the help, as far as lab knows.
func (p *program) values(command *cli.Command, flags []string, placeholder, word string) []string {
	switch placeholder {
	case "FORMAT":
		return []string{"text", "json"}
	case "ORIGIN":
		return []string{"auto", "registry", "source", "bundle="}
	case "NAME":
		names, _ := state.List()
		return names
	}
	src, err := workspace.Find(flagOf(command, flags, estateFlag), p.env.Estate)
	if err != nil {
		return nil
	}
	switch placeholder {
	case "SNAPSHOT":
		return p.snapshotNames(command, flags, src.Name)
	case "CLUSTER":
		return foldersOf(src.FS, lab.ClustersDir)
	case "CLUSTERS":
		before := word[:strings.LastIndex(word, ",")+1]
		var list []string
		for _, name := range foldersOf(src.FS, lab.ClustersDir) {
			if !slices.Contains(strings.Split(before, ","), name) {
				list = append(list, before+name)
			}
		}
		return list
	case "ENV":
		return slices.DeleteFunc(foldersOf(src.FS, lab.EnvironmentsDir), func(e string) bool { return e == lab.DefaultEnvironment })
	case "ADDON":
		return foldersOf(src.FS, lab.AddonsDir)
	case "SCENARIO":
		names, _ := scenario.List(src.FS)
		return names
	}
	return nil
}

// completeWithin is how long a shell may be kept waiting for the names of snapshots.
const completeWithin = 5 * time.Second

// snapshotNames are the snapshots of the lab that a command line is about.
func (p *program) snapshotNames(command *cli.Command, flags []string, estate string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
	defer cancel()
	names, _ := snapshot.New(cmp.Or(flagOf(command, flags, nameFlag), estate), docker.New()).Names(ctx)
	return names
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

func foldersOf(fsys fs.FS, dir string) []string {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}
