package supply

import (
	"fmt"
	"slices"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"

	"homelab/lab/supply/chart"
	"homelab/lab/upstream"
)

// Optional items are only listed once present.
func TestOptional(t *testing.T) {
	s := open(t, Options{Mode: ModeSource, CacheDir: t.TempDir()})
	items, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	count := func(items []Item) int {
		n := 0
		for _, i := range items {
			if slices.Contains([]string{"karpenter-kwok", "karpenter", "gateway-api", "stage-fast"}, i.Name) { // of the last two no image is known
				n++
			}
		}
		return n
	}
	if all, needed := count(items), count(s.needed(slices.Clone(items))); all != 4 || needed != 0 {
		t.Errorf("%d listed and %d needed", all, needed)
	}
	for i := range items {
		items[i].Present = true
	}
	if needed := count(s.needed(items)); needed != 4 {
		t.Errorf("%d needed when present", needed)
	}
}

// The chart's default images are those of the recipes.
func TestFluxChartImages(t *testing.T) {
	s := open(t, Options{Mode: ModeSource, CacheDir: t.TempDir()})
	var want []string
	for _, name := range s.ImagesOf("flux2", "") {
		want = append(want, s.Ref(name))
	}
	r, err := chart.Find("flux2", "")
	if err != nil {
		t.Fatal(err)
	}
	src := chart.Sources{}
	for _, module := range append([]string{r.Module}, r.Parts...) {
		src[module] = upstream.Dir(t, module)
	}
	made, err := chart.Build(t.Context(), r, src, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c, err := loader.LoadFile(made.Archive)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range c.Values {
		if m, ok := v.(map[string]any); ok && m["image"] != nil {
			got = append(got, fmt.Sprintf("%s:%s", m["image"], m["tag"]))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the chart runs %q, the recipes build %q", got, want)
	}
}
