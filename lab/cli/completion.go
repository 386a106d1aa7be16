package cli

import (
	"cmp"
	"context"
	"embed"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/docker"
	"homelab/lab/fill"
	"homelab/lab/finding"
	"homelab/lab/forge/pulls"
	"homelab/lab/registry"
	"homelab/lab/scenario"
	"homelab/lab/snapshot"
	"homelab/lab/state"
	"homelab/lab/workspace"
)

// completeFlag is appended by shell scripts to the words of an unfinished command line. The program answers with completions of the last word, so the
// scripts do not depend on its version.
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

// values returns the known values of a placeholder in the help.
func (p *program) values(a argv.Asked) []string {
	switch a.Placeholder {
	case "FORMAT":
		return []string{"text", "json"}
	case "FORMAT_OR_SARIF":
		return []string{"text", "json", "sarif"}
	case "RULE":
		return finding.Codes()
	case "ENGINE":
		return lab.DefaultEngine.Words()
	case "SERVICE":
		return []string{string(lab.EngineArgoCD), "forge", registry.Name} // Flux has no login
	case "SERVICE|ADDON":
		list := []string{string(lab.EngineArgoCD), "forge"}
		if src, err := workspace.Find(a.Flag(estateFlag), p.env.Estate); err == nil {
			list = append(list, src.Folders(lab.AddonsDir)...)
		}
		return list
	case "KIND":
		return []string{kindApplications, kindManifests}
	case "ORIGIN":
		return []string{"auto", "registry", "source", "bundle="}
	case "NAME":
		names, _ := state.List()
		return names
	case "STATE":
		return requestStates()
	case "VERDICT":
		return wordsOf(pulls.Verdicts())
	case "STYLE":
		return wordsOf(pulls.Styles())
	}
	src, err := workspace.Find(a.Flag(estateFlag), p.env.Estate)
	if err != nil {
		return nil
	}
	switch a.Placeholder {
	case "SNAPSHOT":
		return snapshotNames(cmp.Or(a.Flag(nameFlag), src.Name))
	case "REQUEST":
		return openNumbers(cmp.Or(a.Flag(nameFlag), src.Name))
	case "CLUSTER":
		return src.Folders(lab.ClustersDir)
	case "CLUSTERS":
		return a.Next(src.Folders(lab.ClustersDir))
	case "ENV":
		return slices.DeleteFunc(src.Folders(lab.EnvironmentsDir), func(e string) bool { return e == lab.DefaultEnvironment })
	case "ADDON":
		return src.Folders(lab.AddonsDir)
	case "KEY=VALUE":
		list, _ := fill.Find(src.FS)
		keys := fill.Keys(list)
		for i := range keys {
			keys[i] += "="
		}
		return keys
	case "SCENARIO":
		names, _ := scenario.List(src.FS)
		return names
	}
	return nil
}

// completeWithin bounds the time to list snapshots.
const completeWithin = 5 * time.Second

// snapshotNames returns the names of a lab's snapshots.
func snapshotNames(labName string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
	defer cancel()
	names, _ := snapshot.New(labName, docker.New()).Names(ctx)
	return names
}
