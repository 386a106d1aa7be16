package diff

import "homelab/lab/desired"

// isSecret reports whether the values of an object are masked.
func isSecret(id ID) bool { return id.Kind == "Secret" && id.Group == "" }

// masked replaces the values of Secrets.
func masked(id ID, fields []Field) []Field {
	if !isSecret(id) {
		return fields
	}
	for i := range fields {
		f := &fields[i]
		if len(f.Path) > 0 && (f.Path[0].Key == "data" || f.Path[0].Key == "stringData") {
			f.Before, f.After, f.Secret = mask(f.Before), mask(f.After), true
		}
	}
	return fields
}

func mask(v any) any {
	switch v := v.(type) {
	case nil:
		return nil
	case map[string]any:
		of := map[string]any{}
		for key := range v {
			of[key] = desired.Masked
		}
		return of
	}
	return desired.Masked
}
