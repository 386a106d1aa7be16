package render

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"strconv"
	"strings"
	"text/template"
	"time"

	"helm.sh/helm/v3/pkg/chart"

	"homelab/lab/argo"
)

// helmVersion returns the version of Helm beside a minor of Argo CD.
func helmVersion(m argo.Minor) string {
	switch {
	case m.Has(6):
		return "v4.3.1"
	case m.Has(5):
		return "v4.2.1"
	default:
		return "v3.22.0"
	}
}

// helm4 are the template functions that Helm 4 has besides those of Helm 3, by the minor of Argo CD: 3.5 bundles Helm 4.2, 3.6 bundles 4.3.
func helm4(m argo.Minor) template.FuncMap {
	funcs := template.FuncMap{}
	if m.Has(5) {
		maps.Copy(funcs, template.FuncMap{"mustToToml": encodeTOML, "mustToYaml": encodeYAML, "mustToJson": encodeJSON})
	}
	if m.Has(6) {
		in := func(unit func(d time.Duration) any, invalid any) func(v any) any {
			return func(v any) any {
				if d, err := durationOf(v); err == nil {
					return unit(d)
				}
				return invalid
			}
		}
		by := func(change func(d, m time.Duration) time.Duration) func(v, m any) time.Duration {
			return func(v, m any) time.Duration {
				d, err := durationOf(v)
				if err != nil {
					return 0
				}
				if multiple, err := durationOf(m); err == nil {
					return change(d, multiple)
				}
				return d
			}
		}
		maps.Copy(funcs, template.FuncMap{
			"mustToDuration":       durationOf,
			"durationSeconds":      in(func(d time.Duration) any { return d.Seconds() }, 0.0),
			"durationMilliseconds": in(func(d time.Duration) any { return d.Milliseconds() }, int64(0)),
			"durationMicroseconds": in(func(d time.Duration) any { return d.Microseconds() }, int64(0)),
			"durationNanoseconds":  in(func(d time.Duration) any { return d.Nanoseconds() }, int64(0)),
			"durationMinutes":      in(func(d time.Duration) any { return d.Minutes() }, 0.0),
			"durationHours":        in(func(d time.Duration) any { return d.Hours() }, 0.0),
			"durationDays":         in(func(d time.Duration) any { return d.Hours() / 24 }, 0.0),
			"durationWeeks":        in(func(d time.Duration) any { return d.Hours() / 24 / 7 }, 0.0),
			"durationRoundTo":      by(time.Duration.Round),
			"durationTruncateTo":   by(time.Duration.Truncate),
		})
	}
	return funcs
}

// durationOf converts a text such as 1h30m, or a number of seconds.
func durationOf(v any) (time.Duration, error) {
	switch v := v.(type) {
	case time.Duration:
		return v, nil
	case nil:
		return 0, errors.New("not a duration")
	case string:
		text := strings.TrimSpace(v)
		if d, err := time.ParseDuration(text); err == nil {
			return d, nil
		}
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration", v)
		}
		return ofSeconds(seconds)
	}
	const most = math.MaxInt64 / int64(time.Second)
	switch n := reflect.ValueOf(v); {
	case n.CanInt():
		if n.Int() > most || n.Int() < -most {
			return 0, fmt.Errorf("%v s is too long", v)
		}
		return time.Duration(n.Int()) * time.Second, nil
	case n.CanUint():
		if n.Uint() > uint64(most) {
			return 0, fmt.Errorf("%v s is too long", v)
		}
		return time.Duration(n.Uint()) * time.Second, nil
	case n.CanFloat():
		return ofSeconds(n.Float())
	}
	return 0, fmt.Errorf("a %T is not a duration", v)
}

func ofSeconds(seconds float64) (time.Duration, error) {
	if math.IsNaN(seconds) || math.Abs(seconds) > math.MaxInt64/float64(time.Second) {
		return 0, fmt.Errorf("%v s is too long", seconds)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// dropNulls removes nulls from the defaults of a chart as Helm 4 does when it adds them to values: those of keys that have no value, and within mappings. A
// default of a chart for a subchart keeps its nulls if the subchart has values, as these take away the subchart's defaults.
func dropNulls(c *chart.Chart, vals map[string]any) {
	subcharts := map[string]bool{}
	for _, sub := range c.Dependencies() {
		subcharts[sub.Name()] = true
	}
	for key, value := range c.Values {
		given, ok := vals[key]
		_, isTable := given.(map[string]any)
		table, within := value.(map[string]any)
		switch {
		case !ok && value == nil:
			delete(c.Values, key)
		case within && (!ok || isTable && !subcharts[key]):
			dropWithin(table)
		}
	}
	for _, sub := range c.Dependencies() {
		of := map[string]any{}
		for _, from := range []map[string]any{c.Values, vals} {
			if table, ok := from[sub.Name()].(map[string]any); ok {
				Merge(of, copied(table))
			}
		}
		dropNulls(sub, of)
	}
}

func dropWithin(table map[string]any) {
	for key, value := range table {
		if below, ok := value.(map[string]any); ok {
			dropWithin(below)
		} else if value == nil {
			delete(table, key)
		}
	}
}

// copied copies mappings, which Merge changes.
func copied(table map[string]any) map[string]any {
	out := make(map[string]any, len(table))
	for key, value := range table {
		if below, ok := value.(map[string]any); ok {
			value = copied(below)
		}
		out[key] = value
	}
	return out
}
