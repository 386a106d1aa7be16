//go:build !linux && !darwin

package doctor

import "errors"

func free(string) (int64, error) { return 0, errors.ErrUnsupported }
