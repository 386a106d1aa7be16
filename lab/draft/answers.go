package draft

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/fill"
	"homelab/lab/finding"
	"homelab/lab/strict"
)

// AnswersDir is the folder of a repository with what lab cannot know of it.
const AnswersDir = ".lab"

// The files of AnswersDir, each a mapping.
const (
	ChoicesFile = AnswersDir + "/choices.yaml" // what a choice is about: what to take
	ValuesFile  = AnswersDir + "/values.yaml"  // key of an open value: its value
)

// The keys of ChoicesFile that are not about a Choice.
const (
	branchChoice  = "branch"
	clusterChoice = "cluster "
)

// Answers are what a repository's AnswersDir says.
type Answers struct {
	Branch string // that the engine follows

	wishes          Wishes
	values          map[string]string
	choices, fields map[string]lab.Position // by key
}

// Answered reads the answers in a repository's files.
func Answered(files fs.FS) (Answers, error) {
	a := Answers{wishes: Wishes{Took: map[string]string{}}}
	took, at, problems := answers(files, ChoicesFile)
	a.choices = at
	for _, key := range slices.Sorted(maps.Keys(took)) {
		value := took[key]
		switch name, cluster := strings.CutPrefix(key, clusterChoice); {
		case key == RootChoice:
			a.wishes.Root = value
		case key == branchChoice:
			a.Branch = value
		case cluster && !lab.IsName(name) || cluster && !lab.IsName(value):
			problems = append(problems, lab.Problem{Code: finding.InvalidField, Position: at[key], Message: fmt.Sprintf("%s: %s is not a cluster with an environment", key, value), Cure: "cluster NAME: ENVIRONMENT; " + lab.NameRule})
		case cluster:
			a.wishes.Clusters = append(a.wishes.Clusters, Known{Name: name, Environment: value})
		default:
			a.wishes.Took[key] = value
		}
	}
	var more lab.Problems
	a.values, a.fields, more = answers(files, ValuesFile)
	return a, wrong(append(problems, more...))
}

// answers reads a mapping of scalars; a missing file is empty.
func answers(files fs.FS, name string) (map[string]string, map[string]lab.Position, lab.Problems) {
	texts, at := map[string]string{}, map[string]lab.Position{}
	data, err := fs.ReadFile(files, name)
	if errors.Is(err, fs.ErrNotExist) {
		return texts, at, nil
	}
	if err != nil {
		return texts, at, lab.Problems{{Code: finding.UnreadableFile, Position: lab.Position{File: name}, Message: err.Error()}}
	}
	doc, problems := strict.ParseOne(name, data)
	if doc == nil {
		return texts, at, problems
	}
	if doc.Kind != yaml.MappingNode {
		problems = append(problems, lab.Problem{Code: finding.InvalidField, Position: strict.Position(name, doc), Message: "is not a mapping", Cure: "write one KEY: VALUE per line"})
	}
	for key, value := range strict.Pairs(doc) {
		if value.Kind != yaml.ScalarNode {
			problems = append(problems, lab.Problem{Code: finding.InvalidField, Position: strict.Position(name, value), Message: key.Value + " is not a string", Cure: "write one KEY: VALUE per line"})
		}
		texts[key.Value], at[key.Value] = value.Value, strict.Position(name, key)
	}
	return texts, at, problems
}

// wrong is the error for answers that do not fit, or nil.
func wrong(problems lab.Problems) error {
	if len(problems) == 0 {
		return nil
	}
	return &lab.Error{Exit: lab.ExitInvalid, Code: "answers", Message: "answers in " + AnswersDir + " that do not fit", Problems: problems}
}

// unfit returns the answers that a draft has no question for.
func (a Answers) unfit(d *Draft) (problems lab.Problems) {
	asked := []string{branchChoice, RootChoice}
	for _, c := range d.Choices {
		asked = append(asked, c.About)
	}
	for _, about := range slices.Sorted(maps.Keys(a.wishes.Took)) {
		p := lab.Problem{Code: finding.InvalidField, Position: a.choices[about]}
		c, known := d.asked[about]
		switch {
		case !known:
			p.Message, p.Cure = about+" is not an option", "there are "+strings.Join(asked, ", ")
			if near := strict.Closest(about, asked); near != "" {
				p.Cure = "did you mean " + near + "?"
			}
		case !slices.Contains(c.Of, a.wishes.Took[about]):
			p.Message, p.Cure = about+" cannot be "+a.wishes.Took[about], "one of "+strings.Join(c.Of, ", ")
		default:
			continue
		}
		problems = append(problems, p)
	}
	if _, argo := d.Files[lab.RootFile]; !argo {
		for _, c := range a.wishes.Clusters {
			problems = append(problems, lab.Problem{
				Code: finding.InvalidField, Position: a.choices[clusterChoice+c.Name],
				Message: "the clusters of a repository for Flux are those that it has a folder for", Cure: "remove the line",
			})
		}
	}
	return problems
}

// fill sets the open values of a draft that are answered. Keys that it does not have are errors, unless lenient.
func (a Answers) fill(d *Draft, lenient bool) error {
	list, err := fill.Find(d.Files)
	if err != nil {
		return err
	}
	keys, texts := fill.Keys(list), maps.Clone(a.values)
	if lenient {
		maps.DeleteFunc(texts, func(key, _ string) bool { return !slices.Contains(keys, key) })
	}
	err = d.fill(texts)
	var failed *lab.Error
	if !errors.As(err, &failed) {
		return err
	}
	for i, p := range failed.Problems {
		key, _, _ := strings.Cut(p.Message, " ")
		failed.Problems[i].Code, failed.Problems[i].Position = finding.InvalidField, a.fields[strings.TrimSuffix(key, ":")]
	}
	return wrong(failed.Problems)
}
