package verb

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab/fieldpath"
	"homelab/lab/scenario"
)

type patch struct {
	changes            `yaml:",inline"`
	scenario.ObjectRef `yaml:",inline"`
	Set                map[string]any `yaml:"set" doc:"path in the object -> value"`
	Unset              []string       `yaml:"unset" doc:"paths to remove"`
}

func (p *patch) Check(c *scenario.Checker) {
	if len(p.Set)+len(p.Unset) == 0 {
		c.Fail("", "empty patch", "add set or unset")
	}
	for _, at := range slices.Sorted(maps.Keys(p.Set)) {
		c.FieldPath("set."+at, at)
	}
	for i, at := range p.Unset {
		c.FieldPath(fmt.Sprintf("unset[%d]", i), at)
	}
}

// Subjects returns the object.
func (p *patch) Subjects() []scenario.Subject { return []scenario.Subject{p.Subject()} }

// Facets returns the field paths that it changes.
func (p *patch) Facets(scenario.Subject) []string {
	return append(slices.Sorted(maps.Keys(p.Set)), p.Unset...)
}

// value is a path with its new value; nil removes it.
type value struct {
	at    fieldpath.Path
	to    any
	there bool
}

func (p *patch) Do(ctx context.Context, c *scenario.Call) error {
	wanted, err := p.values()
	if err != nil {
		return err
	}
	r, err := resource(c, p.Subject())
	if err != nil {
		return err
	}
	var was []value
	after, err := edit(ctx, r, p.Name, func(o *unstructured.Unstructured) (bool, error) {
		if was == nil { // keep the first reading across retries
			was = have(o, wanted)
			c.Undo(p.Subject().String(), func(ctx context.Context) error {
				_, err := edit(ctx, r, p.Name, func(o *unstructured.Unstructured) (bool, error) { return write(o, was) })
				return err
			})
		}
		return write(o, wanted)
	})
	if err != nil {
		return err
	}
	if after == nil {
		return fmt.Errorf("no %s", p.Subject())
	}
	c.Changed(p.Subject(), after.GetResourceVersion())
	var did []string
	for i, v := range wanted {
		did = append(did, fmt.Sprintf("%s: %s -> %s", v.at, shownValue(was[i]), shownValue(v)))
	}
	c.Note(scenario.Lane{Cluster: p.Cluster, Name: strings.ToLower(p.Kind) + " " + p.Name}, "edited by hand")
	c.Did("%s", strings.Join(did, ", "))
	return nil
}

func (p *patch) values() ([]value, error) {
	var list []value
	for _, text := range slices.Sorted(maps.Keys(p.Set)) {
		at, err := fieldpath.Parse(text)
		if err != nil {
			return nil, err
		}
		list = append(list, value{at, p.Set[text], true})
	}
	for _, text := range p.Unset {
		at, err := fieldpath.Parse(text)
		if err != nil {
			return nil, err
		}
		list = append(list, value{at: at})
	}
	return list, nil
}

// have returns the current values at the paths of wanted.
func have(o *unstructured.Unstructured, wanted []value) []value {
	list := make([]value, len(wanted))
	for i, w := range wanted {
		v, ok := w.at.Get(o.Object)
		list[i] = value{w.at, v, ok}
		if missing, yes := w.at.Missing(o.Object); yes {
			list[i].at = missing // also remove parents created on the way
		}
	}
	return list
}

// write sets values and reports whether the object changed.
func write(o *unstructured.Unstructured, values []value) (bool, error) {
	before := o.DeepCopy()
	for _, v := range values {
		var err error
		if v.there {
			err = v.at.Set(o.Object, v.to)
		} else {
			err = v.at.Remove(o.Object)
		}
		if err != nil {
			return false, err
		}
	}
	return !reflect.DeepEqual(before.Object, o.Object), nil
}

func shownValue(v value) string {
	if !v.there {
		return "(none)"
	}
	return scenario.Shown(v.to)
}
