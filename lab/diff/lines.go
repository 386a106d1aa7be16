package diff

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
)

// maxLines limits texts that are compared by line.
const maxLines = 2000

// Lines returns the difference of a text of several lines, or of a list of scalars, by line: each begins with a space, "-", "+", or "@@" for lines that are left out.
// It is nil for other values, and for texts that are too long.
func (f Field) Lines() []string {
	const around = 2
	before, was := lines(f.Before)
	after, is := lines(f.After)
	if f.Kind == Reordered || f.Secret || !was && !is || len(before) > maxLines || len(after) > maxLines || f.Before != nil && !was && !isText(f.Before) || f.After != nil && !is && !isText(f.After) {
		return nil
	}
	var list []string
	for n, group := range difflib.NewMatcher(before, after).GetGroupedOpCodes(around) {
		if n > 0 {
			list = append(list, "@@")
		}
		for _, op := range group {
			if op.Tag == 'e' {
				list = prefixed(list, " ", before[op.I1:op.I2])
				continue
			}
			list = prefixed(prefixed(list, "-", before[op.I1:op.I2]), "+", after[op.J1:op.J2])
		}
	}
	return list
}

func isText(v any) bool {
	_, ok := v.(string)
	return ok
}

func prefixed(list []string, prefix string, lines []string) []string {
	for _, line := range lines {
		list = append(list, prefix+line)
	}
	return list
}

// lines returns the lines of a text, or the elements of a list. several reports whether to compare them one by one.
func lines(v any) (list []string, several bool) {
	switch v := v.(type) {
	case string:
		return strings.Split(strings.TrimSuffix(v, "\n"), "\n"), strings.Contains(strings.TrimSuffix(v, "\n"), "\n")
	case []any:
		for _, x := range v {
			if !isScalar(x) {
				return nil, false
			}
			list = append(list, scalar(x))
		}
		return list, len(list) > 0
	}
	return nil, false
}

func scalar(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
