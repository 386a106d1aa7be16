package source

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
)

// placeholder is a version in recipes: $(kubernetes) is 1.37.2, $(kubernetes.major) 1, $(kubernetes.minor) 37, $(kubernetes.patch) 2.
var placeholder = regexp.MustCompile(`\$\(([a-z0-9-]+)(?:\.(major|minor|patch))?\)`)

// versionsIn returns the versions at the top of recipes.
func versionsIn(data []byte) map[string]string {
	var top struct {
		Versions map[string]string `yaml:"versions"`
	}
	_ = yaml.Unmarshal(data, &top) // what is wrong is reported by Parse
	return top.Versions
}

// expand replaces the placeholders by versions.
func expand(file string, data []byte, versions map[string]string) ([]byte, lab.Problems) {
	var problems lab.Problems
	var out bytes.Buffer
	number := 0
	for line := range bytes.Lines(data) {
		number++
		out.Write(placeholder.ReplaceAllFunc(line, func(found []byte) []byte {
			m := placeholder.FindStringSubmatch(string(found))
			version, known := versions[m[1]]
			parts := strings.Split(version, ".")
			switch {
			case !known || m[2] != "" && len(parts) != 3:
				problems = append(problems, lab.Problem{
					Position: lab.Position{File: file, Line: number}, Message: fmt.Sprintf("%s stands for no version", found), Cure: "name it under versions, as X.Y.Z",
				})
			case m[2] == "major":
				version = parts[0]
			case m[2] == "minor":
				version = parts[1]
			case m[2] == "patch":
				version = parts[2]
			}
			return []byte(version)
		}))
	}
	return out.Bytes(), problems
}
