package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/estate"
	"homelab/lab/finding"
	"homelab/lab/lint"
	"homelab/lab/strict"
	"homelab/lab/supply"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

func (p *program) lintCommand() *cli.Command {
	return &cli.Command{
		Name:  "lint",
		Usage: "find what the estate's files ask for and its author did not mean",
		Description: "Works without a running lab, an engine and network, and runs nothing that the estate names. docs/lint.md lists the rules.\n" +
			"The comment `# lab:ignore RULE reason` ignores a rule's warnings in its line and the next.\n" +
			"Exits with 2 if there are errors, or, with --strict, warnings.\n\n" +
			examples("lab lint", "lab lint --strict", "lab lint --cluster prod --rule floating-image", "lab lint -o json", "lab lint -o sarif"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, engineFlag, versionFlag, imagesFlag,
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FORMAT_OR_SARIF` of the output: text, json or sarif", Value: "text"},
			&cli.StringFlag{Name: "cluster", Usage: "without what concerns other clusters than `CLUSTER`"},
			&cli.StringSliceFlag{Name: "rule", Usage: "only findings of `RULE`; may be repeated"},
			&cli.BoolFlag{Name: "strict", Usage: "fail on warnings, too"},
		},
		Action: p.reviewAction(func(c *cli.Context) (*workspace.Workspace, error) {
			if err := p.output(c, "sarif"); err != nil {
				return nil, err
			}
			return workspace.Open(p.aim(c))
		}, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error {
			return p.lint(c.Context, ws, lintOptions{
				Selection: lint.Selection{Cluster: c.String("cluster"), Rules: c.StringSlice("rule")},
				origin:    originOf(c), strict: c.Bool("strict"), sarif: c.String("output") == "sarif",
			})
		}),
	}
}

// lintOptions are the flags of lab lint.
type lintOptions struct {
	lint.Selection
	origin        origin
	strict, sarif bool
}

func (p *program) lint(ctx context.Context, ws *workspace.Workspace, o lintOptions) error {
	for _, code := range o.Rules {
		if _, known := finding.ByCode(code); !known {
			cure := "docs/lint.md lists them"
			if best := strict.Closest(code, finding.Codes()); best != "" {
				cure = fmt.Sprintf("did you mean %q?", best)
			}
			return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("unknown rule %q", code), Cure: cure}
		}
	}
	options, err := p.offline(ctx, o.origin)
	if err != nil {
		return err
	}
	est, apps, problems, err := ws.Inspect(options...)
	if err != nil {
		return err
	}
	if err := hasCluster(est, o.Cluster); err != nil {
		return err
	}
	found := lint.Run(lint.Model{Estate: est, Apps: apps, Problems: problems}, o.Selection)
	if err := p.leftOpen(ws); err != nil {
		return err
	}
	if ws.Drafts() {
		found.Findings = written(found.Findings)
	}
	res := ui.NewLintResult(ws.Name, string(est.Hub().Engine.Type), found.Findings, found.Ignored)
	own(ws, &res)
	if o.sarif {
		err = p.ui.Sarif(res, versionInfo().Version, inRepository(est.Dir))
	} else {
		err = p.ui.Linted(res)
	}
	if err == nil && (res.Errors > 0 || o.strict && res.Warnings > 0) {
		err = exitError{lab.ExitInvalid}
	}
	return err
}

// inRepository returns a folder relative to its Git repository, which code scanning expects; "" if it is in none.
func inRepository(dir string) string {
	for top := dir; top != ""; top = filepath.Dir(top) {
		if _, err := os.Stat(filepath.Join(top, ".git")); err == nil {
			within, _ := filepath.Rel(top, dir)
			return filepath.ToSlash(within)
		}
		if top == filepath.Dir(top) {
			break
		}
	}
	return ""
}

// offline returns the options for reading an estate with the charts that are on this machine.
func (p *program) offline(ctx context.Context, from origin) ([]estate.Option, error) {
	s, err := p.local(ctx, from)
	if err != nil {
		return nil, err
	}
	return supplied(ctx, s), nil
}

// local opens the source of images and charts that are on this machine.
func (p *program) local(ctx context.Context, from origin) (*supply.Supply, error) {
	options, err := supplyOptions(from)
	if err != nil {
		return nil, err
	}
	return supply.Local(ctx, options)
}

// hasCluster returns an error for a cluster that the estate does not have; "" is none.
func hasCluster(est *lab.Estate, name string) error {
	if _, ok := est.Cluster(name); name != "" && !ok {
		return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("no cluster %q in the estate", name), Cure: "lab bridge show lists them"}
	}
	return nil
}
