package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/desired"
	"homelab/lab/estate"
	"homelab/lab/fill"
	"homelab/lab/finding"
	"homelab/lab/supply"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

func (p *program) renderCommand() *cli.Command {
	return &cli.Command{
		Name:  "render",
		Usage: "print what the engine will have: applications, and the objects that they apply",
		Description: "Works without a running lab, an engine and network. Charts of chart repositories are rendered if they are on this machine.\n" +
			"What cannot be rendered is said on stderr, with the reason. Each object follows a comment with its application, file and line.\n\n" +
			examples("lab render", "lab render --cluster prod --addon podinfo", "lab render --kind applications", "lab render --rev main", "lab render --out rendered --strict", "lab render -o json"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag, engineFlag, versionFlag, imagesFlag, revFlag,
			&cli.StringFlag{Name: "cluster", Usage: "only applications of `CLUSTER`"},
			&cli.StringFlag{Name: "addon", Usage: "only applications of `ADDON`"},
			&cli.StringFlag{Name: "application", Usage: "only the application `APPLICATION`"},
			&cli.StringFlag{Name: "kind", Usage: "`KIND` of output: manifests, or applications without their objects", Value: kindManifests},
			&cli.StringFlag{Name: "out", Usage: "write a file for each application to `DIR`/CLUSTER/, which must be missing or empty"},
			&cli.BoolFlag{Name: "show-secrets", Usage: "print the values of Secrets"},
			&cli.BoolFlag{Name: "strict", Usage: "fail if something cannot be rendered"},
		},
		Action: p.reviewAction(p.open, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error {
			return p.render(c.Context, ws, renderOptions{
				origin: originOf(c), revs: revisionsOf(c), cluster: c.String("cluster"), addon: c.String("addon"), application: c.String("application"), kind: c.String("kind"),
				out: c.String("out"), secrets: c.Bool("show-secrets"), strict: c.Bool("strict"),
			})
		}),
	}
}

// The kinds of output.
const (
	kindManifests    = "manifests"
	kindApplications = "applications"
)

// renderOptions are the flags of lab render.
type renderOptions struct {
	origin                            origin
	revs                              []string
	cluster, addon, application, kind string
	out                               string
	secrets, strict                   bool
}

func (p *program) render(ctx context.Context, ws *workspace.Workspace, o renderOptions) error {
	if o.kind != kindManifests && o.kind != kindApplications {
		return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("unknown kind of output %q", o.kind), Cure: "--kind manifests or applications"}
	}
	ws, err := p.at(ctx, ws, o.revs)
	if err != nil {
		return err
	}
	read := p.model
	if p.ui.WantsJSON() { // says what is left out
		read = p.desired
	}
	est, apps, err := read(ctx, ws, o.origin)
	if err != nil {
		return err
	}
	none := len(apps) == 0
	if apps, err = o.choose(est, apps); err != nil {
		return err
	}
	p.readAt(ws)
	files := newRendering(o)
	res := ui.RenderResult{Lab: ws.Name, Engine: string(est.Hub().Engine.Type), Revisions: revisions(ws)}
	var problems lab.Problems
	if err := p.leftOpen(ws); err != nil {
		return err
	}
	if none {
		if err := p.noApplications(ws); err != nil {
			return err
		}
	}
	for _, app := range apps {
		var objects []desired.Object
		var missing lab.Problems
		if o.kind == kindManifests {
			objects, missing = app.Objects()
		}
		if app.Manifest == nil && len(app.Parts) == 0 && app.LeftOut != "" { // a set that generates nothing, or what Argo CD refuses
			missing = append(missing, lab.Problem{Code: finding.LeftOut, Position: app.At, Message: app.Name + ": " + app.LeftOut})
		}
		problems = append(problems, missing...)
		own(ws, &app.At)
		for i := range objects {
			own(ws, &objects[i].File)
		}
		if !o.secrets {
			for i := range objects {
				objects[i] = objects[i].Mask()
			}
		}
		if !p.ui.WantsJSON() || o.out != "" {
			if err := files.add(app, objects); err != nil {
				return err
			}
		}
		if !p.ui.WantsJSON() {
			continue
		}
		of, err := renderedApplication(app, objects)
		if err != nil {
			return err
		}
		of.Complete = len(missing) == 0
		res.Applications = append(res.Applications, of)
	}
	for _, set := range est.UnknownSets {
		problems = append(problems, unknownSet(set))
	}
	own(ws, &problems)
	if o.strict && len(problems) > 0 {
		return &lab.Error{Exit: lab.ExitFailed, Code: "not_rendered", Message: "not everything can be rendered", Problems: problems}
	}
	for _, problem := range problems {
		p.ui.Println("note: " + problem.String())
	}
	if o.out != "" {
		if err := files.write(o.out); err != nil {
			return err
		}
	}
	res.Problems = ui.RenderProblems(problems)
	switch {
	case p.ui.WantsJSON():
		return p.ui.JSON(res)
	case o.out == "":
		p.ui.Raw(files.stream.String())
	default:
		p.ui.Print(fmt.Sprintf("%s in %s", ui.Count(len(files.of), "file"), o.out))
	}
	return nil
}

// noApplications says that an estate has none, and which values are open: labels may select none for that.
func (p *program) noApplications(ws *workspace.Workspace) error {
	list, err := fill.Find(ws.Estate.FS)
	if err != nil {
		return err
	}
	line := "note: the estate has no applications"
	if open := ui.OpenLine(openValues(list)); open != "" && ws.Draft() == nil {
		line += "; " + open + ": " + ws.OnEstate("lab fill") + " sets them"
	}
	p.ui.Println(line)
	return nil
}

// desired returns the estate with what its engine will have. It makes no requests.
func (p *program) desired(ctx context.Context, ws *workspace.Workspace, from origin) (*lab.Estate, []desired.App, error) {
	options, err := p.offline(ctx, from)
	if err != nil {
		return nil, nil, err
	}
	return ws.Desired(options...)
}

// model is desired without what only lab up needs: what is left out, and which images are needed. So nothing is rendered before it is asked for.
func (p *program) model(ctx context.Context, ws *workspace.Workspace, from origin) (*lab.Estate, []desired.App, error) {
	m, err := p.read(ctx, ws, from)
	return m.Estate, m.Apps, err
}

// read is model, and keeps what explains it.
func (p *program) read(ctx context.Context, ws *workspace.Workspace, from origin, options ...estate.Option) (estate.Model, error) {
	open := p.supplies[from]
	if open == nil {
		open = sync.OnceValues(func() (*supply.Supply, error) { return p.local(ctx, from) })
		p.supplies = map[origin]func() (*supply.Supply, error){from: open}
	}
	if from.images != imagesFlag.Value { // what is chosen must be there; opening it costs as much as reading a small estate
		if _, err := open(); err != nil {
			return estate.Model{}, err
		}
	}
	return ws.Read(append(options, estate.WithChartFiles(func(use lab.ChartUse) (lab.ChartFiles, error) {
		s, err := open()
		if err != nil {
			return lab.ChartFiles{}, err
		}
		return s.Files(ctx, use)
	}))...)
}

// supplied returns the options for a source of images and charts, whose charts on this machine are read.
func supplied(ctx context.Context, s *supply.Supply) []estate.Option {
	return append(estate.Supplied(s), chartFiles(ctx, s))
}

func chartFiles(ctx context.Context, s *supply.Supply) estate.Option {
	return estate.WithChartFiles(func(use lab.ChartUse) (lab.ChartFiles, error) { return s.Files(ctx, use) })
}

// at returns the lab with the files of revisions, if there are any.
func (p *program) at(ctx context.Context, ws *workspace.Workspace, revs []string) (*workspace.Workspace, error) {
	if len(revs) == 0 {
		return ws, nil
	}
	return ws.At(ctx, revs...)
}

// readAt says which revisions were read.
func (p *program) readAt(ws *workspace.Workspace) {
	for _, r := range ws.Revisions() {
		p.ui.Println("read: " + r.String())
	}
}

func revisions(ws *workspace.Workspace) (list ui.List[ui.ReadRevision]) {
	for _, r := range ws.Revisions() {
		list = append(list, ui.ReadRevision{Folder: r.Folder, Revision: r.Name, Commit: r.Commit})
	}
	return list
}

// choose returns the chosen applications, sorted by cluster and name; none is an error.
func (o renderOptions) choose(est *lab.Estate, apps []desired.App) ([]desired.App, error) {
	if err := hasCluster(est, o.cluster); err != nil {
		return nil, err
	}
	var chosen []desired.App
	for _, a := range apps {
		if (o.cluster == "" || a.Cluster == o.cluster) && (o.addon == "" || a.Addon == o.addon) && (o.application == "" || a.Name == o.application) {
			chosen = append(chosen, a)
		}
	}
	if len(chosen) == 0 && cmp.Or(o.addon, o.application, o.cluster) != "" {
		return nil, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "no such application", Cure: "lab render --kind applications prints all"}
	}
	slices.SortStableFunc(chosen, func(a, b desired.App) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Name, b.Name))
	})
	return chosen, nil
}

// rendering is the text of applications: in one stream, or by file.
type rendering struct {
	kind   string
	stream bytes.Buffer
	of     map[string][]byte // CLUSTER/APPLICATION.yaml; nil unless files are written
}

func newRendering(o renderOptions) *rendering {
	r := &rendering{kind: o.kind}
	if o.out != "" {
		r.of = map[string][]byte{}
	}
	return r
}

func (r *rendering) add(app desired.App, objects []desired.Object) error {
	var b bytes.Buffer
	if r.kind == kindApplications && app.Manifest != nil {
		text, err := sigsyaml.Marshal(app.Manifest)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "---\n# %s: %s\n%s", app.Name, app.At, text)
	}
	for _, o := range objects {
		text, err := o.YAML()
		if err != nil {
			return fmt.Errorf("%s of %s: %w", o.ID(), app.Name, err)
		}
		fmt.Fprintf(&b, "---\n%s\n%s", heading(app.Name, o), text)
	}
	if r.of == nil {
		r.stream.Write(b.Bytes())
	} else if b.Len() > 0 {
		r.of[filepath.Join(app.Cluster, app.Name+".yaml")] = b.Bytes()
	}
	return nil
}

// write writes the files to a folder that is missing or empty.
func (r *rendering) write(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) || len(entries) > 0 {
		return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: dir + " is not an empty folder, nothing was written", Cure: "remove it, or choose another: --out DIR", Err: err}
	}
	for name, text := range r.of {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// renderedApplication converts an application with its objects.
func renderedApplication(app desired.App, objects []desired.Object) (ui.RenderedApplication, error) {
	a := ui.RenderedApplication{Name: app.Name, Addon: app.Addon, Cluster: app.Cluster, Namespace: app.Namespace, LeftOut: app.LeftOut, File: app.At.File, Line: app.At.Line}
	if app.Manifest != nil {
		text, err := json.Marshal(app.Manifest)
		if err != nil {
			return a, err
		}
		a.Manifest = ui.Raw(text)
	}
	for _, o := range objects {
		text, err := o.JSON()
		if err != nil {
			return a, fmt.Errorf("%s of %s: %w", o.ID(), app.Name, err)
		}
		a.Objects = append(a.Objects, ui.RenderedObject{Cluster: o.Cluster, Release: o.Part, File: o.File, Line: o.Line, Hook: o.Hook, Wave: o.Wave, Object: ui.Raw(text)})
	}
	return a, nil
}

// heading is the comment above an object.
func heading(app string, o desired.Object) string {
	var b strings.Builder
	b.WriteString("# " + app)
	if o.Part != "" {
		b.WriteString(", HelmRelease " + o.Part)
	}
	if o.File != "" {
		fmt.Fprintf(&b, ": %s", lab.Position{File: o.File, Line: o.Line})
	}
	if o.Hook != "" {
		b.WriteString(", hook " + o.Hook)
	}
	if o.Wave != 0 {
		fmt.Fprintf(&b, ", wave %d", o.Wave)
	}
	return b.String()
}
