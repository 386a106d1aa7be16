package appset

import (
	"fmt"
	"io"
	"io/fs"

	"homelab/lab/sandbox"
)

// Limits of an ApplicationSet. The controller has none: sets of strangers may combine a few lines into billions of Applications.
const (
	maxSteps  = 5_000_000 // of all templates
	maxParams = 50_000    // sets of parameters, those of generators in a matrix or merge too
	maxRead   = 32 << 20  // bytes of files that generators read
	maxText   = 1 << 20   // bytes of one text
	maxTexts  = 256 << 20 // bytes of all
)

// spent is what the expansions of a set have used.
type spent struct{ steps, params, read, texts int }

func (s *spent) step(n int) error {
	if s.steps += n; s.steps > maxSteps || s.steps < 0 {
		return sandbox.Over("its templates take more than %d steps: is there an endless loop?", maxSteps)
	}
	return nil
}

// generated counts sets of parameters.
func (s *spent) generated(n int) error {
	if s.params += n; s.params > maxParams {
		return fmt.Errorf("more than %d sets of parameters: select less", maxParams)
	}
	return nil
}

// wrote counts a text.
func (s *spent) wrote(n int) error {
	if s.texts += n; n > maxText || s.texts > maxTexts {
		return sandbox.Over("its templates write more than %d MiB", maxTexts>>20)
	}
	return nil
}

// file reads a file of a generator.
func (s *spent) file(repository fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(repository, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := repository.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(maxRead-s.read)+1))
	if err != nil {
		return nil, err
	}
	if s.read += len(data); s.read > maxRead {
		return nil, fmt.Errorf("%s: the generator reads more than %d MiB: select less", name, maxRead>>20)
	}
	return data, nil
}
