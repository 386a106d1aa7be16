package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/draft"
	"homelab/lab/fill"
	"homelab/lab/finding"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

// reviewAction is labAction for a command that also works in a repository without an estate, on a draft.
func (p *program) reviewAction(find func(*cli.Context) (*workspace.Workspace, error), check func(*cli.Context) error, do func(*cli.Context, *workspace.Workspace) error) cli.ActionFunc {
	return p.labAction(find, check, func(c *cli.Context, ws *workspace.Workspace) error {
		ws, err := ws.Drafted(c.Context)
		if err != nil {
			return err
		}
		err = do(c, ws)
		if known := new(lab.Error); errors.As(err, &known) {
			for i, problem := range known.Problems {
				if ws.Drafts() {
					known.Problems[i].Position, known.Problems[i].Message = inDraft(problem.Position, problem.Message)
				}
			}
			own(ws, known)
		}
		return err
	})
}

// own replaces the names of files of the repository that is drafted by their paths in it.
func own(ws *workspace.Workspace, result any) {
	if !ws.Drafts() {
		return
	}
	names := strings.NewReplacer(draft.Own+"/", "", draft.Own+"@", filepath.Base(ws.Estate.Dir)+"@", draft.Own, ".")
	var walk func(reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			if v.CanSet() {
				v.SetString(names.Replace(v.String()))
			}
		case reflect.Pointer:
			walk(v.Elem())
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		}
	}
	walk(reflect.ValueOf(result))
}

// inDraft moves the position of a draft's file to the message: the repository does not have it.
func inDraft(at lab.Position, message string) (lab.Position, string) {
	if at.File == "" || strings.HasPrefix(at.File, draft.Own) || strings.HasPrefix(at.File, draft.AnswersDir+"/") {
		return at, message
	}
	return lab.Position{}, fmt.Sprintf("drafted %s: %s", at, message)
}

// written returns the findings in files of the repository. Of a draft's own, which nobody has written, only errors count.
func written(list []finding.Finding) (kept []finding.Finding) {
	for _, f := range list {
		at, message := inDraft(f.Position, f.Message)
		if at == f.Position || f.Severity == finding.Error {
			f.Position, f.Message = at, message
			kept = append(kept, f)
		}
	}
	return kept
}

// leftOpen says in a line what the draft left open, and in others what it chose.
func (p *program) leftOpen(ws *workspace.Workspace) error {
	d := ws.Draft()
	if d == nil {
		return nil
	}
	list, err := fill.Find(d.Files)
	if err != nil {
		return err
	}
	if line := ui.OpenLine(openValues(list)); line != "" {
		p.ui.Println(line + ": " + draft.ValuesFile + " sets them")
	}
	for _, c := range draftInfo(d).Choices {
		own(ws, &c)
		p.ui.Println("chosen: " + c.About + ": " + c.Took + " of " + strings.Join(c.Of, ", ") + ": " + draft.ChoicesFile + " decides")
	}
	return nil
}
