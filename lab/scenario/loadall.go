package scenario

import (
	"errors"
	"fmt"
	"io/fs"

	"homelab/lab"
)

// LoadAll reads scenarios and returns the problems of all of them in one error.
func LoadAll(fsys fs.FS, names []string, verbs []Verb) ([]*Scenario, error) {
	var list []*Scenario
	var problems lab.Problems
	for _, name := range names {
		one, err := Load(fsys, name, verbs)
		var labErr *lab.Error
		if errors.As(err, &labErr) && len(labErr.Problems) > 0 {
			problems = append(problems, labErr.Problems...)
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	if len(problems) == 0 {
		return list, nil
	}
	what := "1 problem"
	if len(problems) > 1 {
		what = fmt.Sprintf("%d problems", len(problems))
	}
	return nil, &lab.Error{Exit: lab.ExitInvalid, Code: "invalid_scenario", Message: what + " in the scenarios, nothing was touched", Problems: problems}
}
