package appset

import (
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"homelab/lab/argo"
)

// flatten joins nested keys with dots. Before 3.4, mappings of strings, such as labels and values, stayed one value; in lists they still do.
func flatten(params map[string]any, minor argo.Minor) map[string]string {
	flat := map[string]string{}
	var walk func(prefix string, v any, listed bool)
	walk = func(prefix string, v any, listed bool) {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				walk(prefix+"."+k, x, listed)
			}
			return
		case map[string]string:
			if listed || !minor.Has(4) {
				break
			}
			for k, x := range v {
				flat[(prefix + "." + k)[1:]] = x
			}
			return
		case []any:
			for i, x := range v {
				walk(prefix+"."+strconv.Itoa(i), x, true)
			}
			return
		}
		flat[prefix[1:]] = fmt.Sprint(v)
	}
	for k, v := range params {
		walk("."+k, v, false)
	}
	return flat
}

// postSelector filters generated parameters. Unlike labels, values may be any text.
func postSelector(s *metav1.LabelSelector) (func(map[string]string) bool, error) {
	if s == nil {
		return nil, nil
	}
	expressions := slices.Clone(s.MatchExpressions)
	for key, value := range s.MatchLabels {
		expressions = append(expressions, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
	}
	for _, e := range expressions {
		if errs := validation.IsQualifiedName(e.Key); len(errs) > 0 {
			return nil, fmt.Errorf("selector: %q: %s", e.Key, errs[0])
		}
		switch e.Operator {
		case metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn:
			if len(e.Values) == 0 {
				return nil, fmt.Errorf("selector: %s %s needs values", e.Key, e.Operator)
			}
		case metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist:
			if len(e.Values) > 0 {
				return nil, fmt.Errorf("selector: %s %s takes no values", e.Key, e.Operator)
			}
		default:
			return nil, fmt.Errorf("selector: %q is not an operator", e.Operator)
		}
	}
	return func(params map[string]string) bool {
		for _, e := range expressions {
			value, there := params[e.Key]
			met := there
			switch e.Operator {
			case metav1.LabelSelectorOpIn:
				met = there && slices.Contains(e.Values, value)
			case metav1.LabelSelectorOpNotIn:
				met = !there || !slices.Contains(e.Values, value)
			case metav1.LabelSelectorOpDoesNotExist:
				met = !there
			}
			if !met {
				return false
			}
		}
		return true
	}, nil
}
