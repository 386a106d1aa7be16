package strict

import (
	"strings"
	"testing"

	"homelab/lab"
)

func TestEnum(t *testing.T) {
	type document struct {
		One  lab.EngineType         `yaml:"one"`
		List []lab.EngineType       `yaml:"list"`
		Map  map[lab.EngineType]int `yaml:"map"`
	}
	for text, want := range map[string]string{
		"one: flux\nlist: [argocd, flux]\nmap: {flux: 1}": "",
		"one: fluxx":           `one cannot be "fluxx"`,
		"list: [argocd, helm]": `list[1] cannot be "helm"`,
		"map: {flx: 1}":        `unknown key "flx"`,
	} {
		docs, problems := Parse("x.yaml", []byte(text))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		r := NewReader("x.yaml")
		var d document
		r.Decode(docs[0], &d, "")
		if want == "" {
			if len(r.Problems) > 0 || d.One != lab.EngineFlux || len(d.List) != 2 || d.Map[lab.EngineFlux] != 1 {
				t.Errorf("%+v, %v", d, r.Problems)
			}
			continue
		}
		if len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Message, want) || r.Problems[0].Cure == "" || r.Problems[0].Line != 1 {
			t.Errorf("%s: %v, want %s", text, r.Problems, want)
		}
	}
}
