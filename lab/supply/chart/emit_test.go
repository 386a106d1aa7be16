package chart

import (
	"testing"

	helmchart "helm.sh/helm/v3/pkg/chart"
)

// What looks like a template in a manifest stays text.
func TestEmitText(t *testing.T) {
	const description = "A template may say {{.name}}; it is text here."
	text, err := emit("", map[string]any{"kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": map[string]any{"description": description}})
	if err != nil {
		t.Fatal(err)
	}
	c := &helmchart.Chart{Metadata: &helmchart.Metadata{Name: "c", Version: "1.0.0"}, Templates: []*helmchart.File{{Name: "templates/a.yaml", Data: text}}}
	if got := render(t, c, "")["ConfigMap/a"]["data"].(map[string]any)["description"]; got != description {
		t.Errorf("%q", got)
	}
}
