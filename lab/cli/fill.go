package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/fill"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

func (p *program) fillCommand() *cli.Command {
	return &cli.Command{
		Name:      "fill",
		Usage:     "list or set the open values of the estate",
		ArgsUsage: "[KEY=VALUE...]",
		Description: "lab init --from writes a placeholder where nothing in the repositories says what a value is. lab fill lists these values, and sets them in place, wherever\n" +
			"they are in the estate's files. A value that its field would refuse is an error, and then nothing is written.\n\n" +
			examples("lab fill", "lab fill domain=example.com replicas=2", "lab fill --file values.yaml", "lab fill -o json"),
		Flags: []cli.Flag{
			estateFlag, outputFlag,
			&cli.StringFlag{Name: "file", Usage: "also set the values of a YAML mapping in `FILE`"},
		},
		Action: p.labAction(p.open, argv.AnyArgs, func(c *cli.Context, ws *workspace.Workspace) error {
			texts, err := valuesOf(c.String("file"))
			if err != nil {
				return err
			}
			for _, arg := range c.Args().Slice() {
				key, value, ok := strings.Cut(arg, "=")
				if !ok || key == "" {
					return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "no value in " + lab.Quote(arg), Cure: "lab fill KEY=VALUE"}
				}
				texts[key] = value
			}
			if ws.Estate.Dir == "" && len(texts) > 0 {
				return &lab.Error{Exit: lab.ExitInvalid, Code: "no_estate", Message: "the built-in estate is read-only", Cure: "lab init DIR writes it out"}
			}
			return p.fill(ws, texts)
		}),
	}
}

// valuesOf reads a file with a mapping of keys to values. Without a name, it is empty.
func valuesOf(file string) (map[string]string, error) {
	texts := map[string]string{}
	if file == "" {
		return texts, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: err.Error(), Cure: "name a file with a mapping, such as domain: example.com"}
	}
	if err := yaml.Unmarshal(data, &texts); err != nil {
		return nil, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: file + ": " + err.Error(), Cure: "write one KEY: VALUE per line"}
	}
	return texts, nil
}

func (p *program) fill(ws *workspace.Workspace, texts map[string]string) error {
	list, err := fill.Find(ws.Estate.FS)
	if err != nil {
		return err
	}
	files, set, err := fill.Set(ws.Estate.FS, list, texts)
	if err != nil {
		return err
	}
	if len(files) > 0 {
		if err := overwrite(ws.Estate.Dir, files); err != nil {
			return err
		}
		if list, err = fill.Find(os.DirFS(ws.Estate.Dir)); err != nil {
			return err
		}
	}
	res := ui.FillResult{Open: openValues(list)}
	for _, v := range set {
		res.Set = append(res.Set, ui.FilledValue{Key: v.Key, File: v.At.File, Line: v.At.Line})
	}
	return p.ui.Filled(res, ws.OnEstate("lab up"))
}

// overwrite replaces files of an estate.
func overwrite(dir string, files map[string][]byte) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("estate: %w", err)
	}
	defer root.Close()
	var failed error
	for name, data := range files {
		failed = errors.Join(failed, root.WriteFile(filepath.FromSlash(name), data, 0o644))
	}
	return failed
}

// openIn returns the open values of an estate, and names them.
func (p *program) openIn(ws *workspace.Workspace) ([]ui.OpenValue, error) {
	list, err := fill.Find(ws.Estate.FS)
	if err != nil {
		return nil, err
	}
	open := openValues(list)
	if line := ui.OpenLine(open); line != "" {
		p.ui.Println(line + ": " + ws.OnEstate("lab fill"))
	}
	return open, nil
}

func openValues(list []fill.Value) []ui.OpenValue {
	var out []ui.OpenValue
	for _, v := range fill.Open(list) {
		kind := string(v.Type)
		if v.Type == fill.Text {
			kind = "text"
		}
		out = append(out, ui.OpenValue{Key: v.Key, Type: kind, File: v.At.File, Line: v.At.Line, ReadBy: v.ReadBy})
	}
	return out
}
