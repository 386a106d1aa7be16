package cli

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/bridge/production"
	"homelab/lab/estate/document"
	"homelab/lab/fieldpath"
	"homelab/lab/ui"
	"homelab/lab/up"
	"homelab/lab/workspace"
	"homelab/lab/yamledit"
)

// largestState bounds what lab bridge reads, in bytes.
const largestState = 64 << 20

// productionFlags select a cluster and what production says of it.
func productionFlags() []cli.Flag {
	return []cli.Flag{
		nameFlag, estateFlag, outputFlag,
		&cli.StringFlag{Name: "cluster", Usage: "`CLUSTER` of the estate that stands for it; needed if there are several with addons"},
		&cli.StringFlag{Name: "resource", Usage: "`ADDRESS` of the cluster Secret in a state or plan that has several"},
		&cli.StringFlag{Name: "secret", Usage: "read the manifest of a cluster Secret in `FILE` instead"},
	}
}

func (p *program) bridgeImportCommand() *cli.Command {
	return &cli.Command{
		Name:      "import",
		Usage:     "take over the bridge of a real cluster into cluster.yaml and environment.yaml",
		ArgsUsage: "FILE|-",
		Description: "FILE is a state of Terraform or OpenTofu, or what output -json or show -json prints, of a plan also. A Secret in it that registers a cluster, as the GitOps Bridge's module\n" +
			"writes it, says most; else each output becomes an annotation. Known keys become fields of spec.cloud, enable_ labels become addons. Sensitive outputs are not read.\n" +
			"Comments and layout of the documents stay.\n\n" +
			examples("lab bridge import terraform.tfstate --cluster prod", "tofu output -json | lab bridge import - --cluster prod --dry-run",
				"lab bridge import --secret secret.yaml --cluster prod"),
		Flags: append(productionFlags(), &cli.BoolFlag{Name: "dry-run", Usage: "print the changes only"}),
		Action: p.labAction(p.open, argv.AnyArgs, func(c *cli.Context, ws *workspace.Workspace) error {
			return p.importBridge(ws, aimedAtProduction(c), c.Bool("dry-run"))
		}),
	}
}

func (p *program) bridgeDiffCommand() *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "compare the bridge of a cluster with that of a real one",
		ArgsUsage: "FILE|-",
		Description: "FILE is as for lab bridge import. Keys that only describe the lab, such as the addresses of its repositories, are left out.\n\n" +
			examples("lab bridge diff terraform.tfstate --cluster prod", "lab bridge diff --secret secret.yaml --cluster prod --check"),
		Flags: append(productionFlags(), &cli.BoolFlag{Name: "check", Usage: "exit with 4 if a key is missing on one side"}),
		Action: p.labAction(p.open, argv.AnyArgs, func(c *cli.Context, ws *workspace.Workspace) error {
			return p.diffBridge(ws, aimedAtProduction(c), c.Bool("check"))
		}),
	}
}

// productionOptions are the flags of productionFlags.
type productionOptions struct {
	files                     []string
	cluster, resource, secret string
	in                        io.Reader
}

func aimedAtProduction(c *cli.Context) productionOptions {
	return productionOptions{files: c.Args().Slice(), cluster: c.String("cluster"), resource: c.String("resource"), secret: c.String("secret"), in: os.Stdin}
}

// read returns the estate, its cluster, and what production says of that.
func (o productionOptions) read(ws *workspace.Workspace) (est *lab.Estate, c lab.Cluster, b production.Bridge, err error) {
	invalid := func(message, cure string) (*lab.Estate, lab.Cluster, production.Bridge, error) {
		return nil, c, b, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: message, Cure: cure}
	}
	if o.secret != "" {
		o.files = append(o.files, o.secret)
	}
	if len(o.files) != 1 {
		return invalid("one file says what production has", "lab bridge import FILE --cluster CLUSTER, or --secret FILE")
	}
	if est, err = ws.Load(); err != nil {
		return nil, c, b, err
	}
	var names []string
	for _, candidate := range est.Clusters {
		if candidate.Name == o.cluster || o.cluster == "" && candidate.Environment != "" {
			names, c = append(names, candidate.Name), candidate
		}
	}
	if len(names) != 1 {
		if o.cluster != "" {
			return invalid("no cluster "+lab.Quote(o.cluster)+" in the estate", "lab bridge show lists the clusters")
		}
		return invalid("which cluster is it here? "+strings.Join(names, ", "), "add --cluster CLUSTER")
	}
	file := o.files[0]
	data, err := readFile(file, o.in)
	if err != nil {
		return invalid(err.Error(), "name a state, what output -json or show -json printed, or the manifest of a Secret")
	}
	b, err = production.Find(data, c.Name, o.resource)
	if err != nil {
		return invalid(file+": "+err.Error(), "give a state, what output -json or show -json printed, or the manifest of a cluster Secret")
	}
	return est, c, b, nil
}

// readFile reads a file, or stdin for "-".
func readFile(name string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, largestState+1))
	if err == nil && len(data) > largestState {
		err = fmt.Errorf("%s: more than %d MiB", name, largestState>>20)
	}
	return data, err
}

func (p *program) importBridge(ws *workspace.Workspace, o productionOptions, dryRun bool) error {
	est, c, b, err := o.read(ws)
	if err != nil {
		return err
	}
	if est.Dir == "" && !dryRun {
		return &lab.Error{Exit: lab.ExitInvalid, Code: "no_estate", Message: "the built-in estate is read-only", Cure: "lab init DIR writes it out"}
	}
	changes, left := production.Take(est, c, b)
	files, err := edited(est.FS, changes)
	if err != nil {
		return err
	}
	if !dryRun && len(files) > 0 {
		if err := overwrite(est.Dir, files); err != nil {
			return err
		}
	}
	res := ui.BridgeImportResult{Cluster: c.Name, From: b.From, Written: !dryRun && len(files) > 0}
	for _, change := range changes {
		path := fieldpath.Of(change.Path...)
		at := yamledit.Line(files[change.File], path)
		res.Changes = append(res.Changes, ui.BridgeChange{File: change.File, Line: at, Field: path.String(), Key: change.Key, Before: text(change.Before), After: text(change.After)})
	}
	for _, l := range left {
		res.Left = append(res.Left, ui.BridgeLeft{Key: l.Key, Reason: l.Reason})
	}
	return p.ui.BridgeImport(res)
}

// text returns a value of a document on one line.
func text(v any) string {
	if v == nil {
		return ""
	}
	line, _ := production.Text(v)
	return line
}

// edited returns the documents with the changes, or an error if one would be invalid.
func edited(fsys fs.FS, changes []production.Change) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, c := range changes {
		data, ok := files[c.File]
		if !ok {
			var err error
			if data, err = fs.ReadFile(fsys, c.File); err != nil {
				return nil, err
			}
		}
		out, err := yamledit.Set(data, fieldpath.Of(c.Path...), c.After)
		if err != nil {
			return nil, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("%s: %v", c.File, err), Cure: "set it by hand: " + fieldpath.Of(c.Path...).String()}
		}
		files[c.File] = out
	}
	var problems lab.Problems
	for name, data := range files {
		var found lab.Problems
		if strings.HasPrefix(name, lab.EnvironmentsDir+"/") {
			_, found = document.Environment(name, data)
		} else {
			_, found = document.Cluster(name, data, "")
		}
		problems = append(problems, found...)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return files, nil
}

func (p *program) diffBridge(ws *workspace.Workspace, o productionOptions, check bool) error {
	est, c, b, err := o.read(ws)
	if err != nil {
		return err
	}
	list, err := up.RegistrationsOf(ws.Name, est, c.Name)
	if err != nil {
		return err
	}
	res := ui.BridgeDiffResult{Cluster: c.Name, From: b.From}
	missing := 0
	for _, d := range production.Diff(list[0], b) {
		kind := "annotation"
		if d.Label {
			kind = "label"
		}
		in := "both"
		switch {
		case !d.InLab:
			in = "production"
		case !d.InProd:
			in = "lab"
		}
		if in != "both" {
			missing++
		}
		res.Differences = append(res.Differences, ui.BridgeDifference{Kind: kind, Key: d.Key, In: in, Lab: d.Lab, Production: d.Production})
	}
	for _, l := range b.Left {
		res.Left = append(res.Left, ui.BridgeLeft{Key: l.Key, Reason: l.Reason})
	}
	if err := p.ui.BridgeDiff(res); err != nil {
		return err
	}
	if check && missing > 0 {
		return exitError{lab.ExitUnmet}
	}
	return nil
}
