package appset

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"homelab/lab"
	"homelab/lab/finding"
)

// turned returns one of three orders of a list: as it is, reversed, and begun with the second.
func turned[T any](list []T, turn int) []T {
	list = slices.Clone(list)
	switch turn {
	case 1:
		slices.Reverse(list)
	case 2:
		list = append(list[1:], list[0])
	}
	return list
}

// inAnyOrder compares a result with those of other orders of the clusters in flat lists, which is random since 3.4: the controller ranges over a map. What differs
// is a note if the same Applications exist in any case, and unknown otherwise.
func (x *expander) inAnyOrder(got *Expansion, err error) (*Expansion, error) {
	const why = "the order of its clusters is random since Argo CD 3.4"
	unknown := &UnknownError{Position: x.at(x.unordered), What: "clusters generator with flatList", Reason: why}
	varies := false
	for turn := 1; turn <= 2; turn++ {
		other := &expander{Set: x.Set, World: x.World, turn: turn}
		x.compiled.begin(x.Minor)
		again, otherErr := other.expand()
		if (err == nil) != (otherErr == nil) {
			return nil, unknown
		}
		if err != nil {
			continue
		}
		if !slices.EqualFunc(got.Applications, again.Applications, sameTarget) || !slices.EqualFunc(got.Invalid, again.Invalid, func(a, b Invalid) bool { return a.Name == b.Name }) {
			return nil, unknown
		}
		varies = varies || !slices.EqualFunc(got.Applications, again.Applications, func(a, b Application) bool { return reflect.DeepEqual(a.Template, b.Template) })
	}
	var fault *Error
	if err != nil && !errors.As(err, &fault) {
		return nil, err
	}
	if varies {
		got.Notes = append(got.Notes, lab.Problem{
			Code: finding.UnstableValue, Position: x.at(x.unordered), Message: fmt.Sprintf("flatList has its clusters in random order in Argo CD %s: what depends on it keeps changing", x.Minor),
			Cure: "sort what the template makes of .clusters, as with sortAlpha",
		})
	}
	return got, err
}

// sameTarget reports whether two Applications have the same name, project and destination.
func sameTarget(a, b Application) bool {
	return a.Metadata.Name == b.Metadata.Name && a.Spec.Project == b.Spec.Project && a.Spec.Destination == b.Spec.Destination
}
