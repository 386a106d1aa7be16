package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/desired"
	"homelab/lab/estate"
	"homelab/lab/finding"
	"homelab/lab/provenance"
	"homelab/lab/strict"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

func (p *program) explainCommand() *cli.Command {
	return &cli.Command{
		Name:      "explain",
		Usage:     "print where the fields of an application's objects come from, and why a cluster has it, or not",
		ArgsUsage: "ADDON [PATH]",
		Description: "Works without a running lab, like lab render. What decides a field is found by experiment: lab changes one value of the input, renders again, and\n" +
			"compares. ADDON may also be the name of an application. PATH selects a field with all below it, in all objects or in those of a kind.\n\n" +
			examples("lab explain podinfo --cluster dev", "lab explain podinfo --cluster hub", "lab explain dev-podinfo spec.replicas", "lab explain dev-identity 'ConfigMap data'", "lab explain podinfo --cluster dev -o json"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag, engineFlag, versionFlag, imagesFlag, revFlag,
			&cli.StringFlag{Name: "cluster", Usage: "`CLUSTER` of the addon"},
		},
		Action: p.reviewAction(p.open, argv.Count("an addon or an application, and a path if you like", func(n int) bool { return n == 1 || n == 2 }), func(c *cli.Context, ws *workspace.Workspace) error {
			return p.explain(c.Context, ws, originOf(c), wanted{name: c.Args().Get(0), path: c.Args().Get(1), cluster: c.String("cluster"), revs: revisionsOf(c)})
		}),
	}
}

// wanted is what lab explain explains.
type wanted struct {
	name, cluster, path string
	revs                []string
}

func (p *program) explain(ctx context.Context, ws *workspace.Workspace, from origin, w wanted) error {
	ws, err := p.at(ctx, ws, w.revs)
	if err != nil {
		return err
	}
	m, err := p.read(ctx, ws, from)
	if err != nil {
		return err
	}
	app, err := w.find(m.Apps)
	if err != nil {
		return p.explainAbsent(ws, m, w, err)
	}
	p.readAt(ws)
	objects, problems := app.Explain()
	res := ui.ExplainResult{Lab: ws.Name, Revisions: revisions(ws), Application: app.Name, Cluster: app.Cluster, File: app.At.File, Line: app.At.Line, Problems: ui.RenderProblems(problems)}
	if w.path == "" {
		res.Why = reasons(m.Why(app.Name, app.Cluster))
	}
	for _, o := range objects {
		of := ui.ExplainedObject{Kind: strict.Text(o.Node, "kind"), Name: strict.Text(o.Node, "metadata", "name"), Cluster: o.Cluster, Release: o.Part, File: o.File, Line: o.Line}
		for _, f := range o.Fields {
			if !w.has(of.Kind, f.Path) {
				continue
			}
			if strict.Text(o.Node, "kind") == "Secret" && (strings.HasPrefix(f.Path, "data") || strings.HasPrefix(f.Path, "stringData")) {
				f = masked(f)
			}
			of.Fields = append(of.Fields, explained(f))
		}
		if len(of.Fields) > 0 {
			res.Objects = append(res.Objects, of)
		}
	}
	if len(objects) == 0 && len(problems) == 0 {
		problems = lab.Problems{{Code: finding.LeftOut, Position: app.At, Message: app.Name + ": " + cmp.Or(app.LeftOut, "it has no objects")}}
		res.Problems = ui.RenderProblems(problems)
	}
	own(ws, &res)
	own(ws, &problems)
	for _, problem := range problems {
		p.ui.Println("note: " + problem.String())
	}
	if len(res.Objects) == 0 && len(problems) == 0 {
		return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("no object of %s has %s", app.Name, w.path), Cure: "lab explain " + app.Name + " prints all fields"}
	}
	return p.ui.Explained(res)
}

// explainAbsent explains why a cluster has no application of an addon that others have, or could have. otherwise is the error if there is none to explain.
func (p *program) explainAbsent(ws *workspace.Workspace, m estate.Model, w wanted, otherwise error) error {
	if w.cluster == "" || slices.ContainsFunc(m.Apps, w.is) { // several
		return otherwise
	}
	if err := hasCluster(m.Estate, w.cluster); err != nil {
		return err
	}
	why := reasons(m.Why(w.name, w.cluster))
	if len(why) == 0 {
		return otherwise
	}
	p.readAt(ws)
	res := ui.ExplainResult{Lab: ws.Name, Revisions: revisions(ws), Cluster: w.cluster, Absent: w.name, Why: why}
	own(ws, &res)
	return p.ui.Explained(res)
}

func reasons(list []desired.Reason) (of ui.List[ui.ExplainedReason]) {
	for _, r := range list {
		of = append(of, ui.ExplainedReason{Text: r.Text, File: r.File, Line: r.Line})
	}
	return of
}

func (w wanted) is(a desired.App) bool {
	return (a.Name == w.name || a.Addon == w.name) && (w.cluster == "" || a.Cluster == w.cluster)
}

// find returns the application.
func (w wanted) find(apps []desired.App) (desired.App, error) {
	var found []desired.App
	var names []string
	for _, a := range apps {
		if w.is(a) {
			found, names = append(found, a), append(names, a.Name)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return desired.App{}, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "no application or addon " + w.name + w.where(), Cure: "lab render --kind applications prints all"}
	}
	return desired.App{}, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: w.name + " is several applications" + w.where(), Details: names, Cure: "name one of them, or select with --cluster"}
}

func (w wanted) where() string {
	if w.cluster == "" {
		return ""
	}
	return " on " + w.cluster
}

// has reports whether a field is wanted: PATH, or KIND PATH, or KIND.
func (w wanted) has(kind, field string) bool {
	of, at, both := strings.Cut(w.path, " ")
	if !both {
		at = of
		if of == kind {
			return true
		}
	} else if of != kind {
		return false
	}
	rest, ok := strings.CutPrefix(field, at)
	return ok && (rest == "" || at == "" || rest[0] == '.' || rest[0] == '[')
}

// masked hides the value of a Secret.
func masked(f provenance.Field) provenance.Field {
	f.Text = desired.Masked
	from := make([]provenance.Value, len(f.From))
	for i, v := range f.From {
		v.Text, v.Over = desired.Masked, nil
		from[i] = v
	}
	f.From = from
	return f
}

func explained(f provenance.Field) ui.ExplainedField {
	of := ui.ExplainedField{Path: f.Path, Value: f.Text, File: f.At.File, Line: f.At.Line, Random: f.Random}
	for _, v := range f.From {
		from := explainedValue(v)
		for _, over := range v.Over {
			from.Overrides = append(from.Overrides, ui.ExplainedPlace{File: over.File, Line: over.Line, Value: over.Text})
		}
		of.From = append(of.From, from)
	}
	return of
}

func explainedValue(v provenance.Value) ui.ExplainedValue {
	of := ui.ExplainedValue{Path: v.Path, Value: v.Text, File: v.File, Line: v.Line}
	for _, at := range v.By {
		of.By = append(of.By, ui.ExplainedPlace{File: at.File, Line: at.Line})
	}
	return of
}
