package verb

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing/fstest" // an in-memory fs.FS; it does not import package testing

	"homelab/lab"
	"homelab/lab/estate"
	"homelab/lab/fluxset"
	"homelab/lab/scenario"
)

// generate adds to a commit the files that `lab generate` writes for the estate with the commit's files.
func generate(before fs.FS, c *scenario.Call, files map[string]*scenario.File) error {
	after, err := committed(before, files)
	if err != nil {
		return err
	}
	est, err := estate.Load(after, "", c.Estate.Name, estate.WithRepositories(c.Estate.Repositories), estate.WithEngine(lab.EngineFlux), estate.Ungenerated())
	if err != nil {
		return fmt.Errorf("the estate in the forge: %w", err)
	}
	want, err := fluxset.Files(after, est.Clusters)
	if err != nil {
		return err
	}
	for name, text := range want {
		if have := after[name]; have == nil || string(have.Data) != text {
			files[name] = &scenario.File{Content: []byte(text)}
		}
	}
	left, err := fluxset.Left(after, want)
	for _, name := range left {
		files[name] = nil
	}
	return err
}

// checked returns what is invalid in the estate with a commit's files, as lab lint and lab up do.
func checked(before fs.FS, c *scenario.Call, files map[string]*scenario.File) error {
	after, err := committed(before, files)
	if err != nil {
		return err
	}
	_, err = estate.Load(after, "", c.Estate.Name, estate.WithRepositories(c.Estate.Repositories), estate.WithEngine(c.Engines))
	var invalid *lab.Error
	if errors.As(err, &invalid) && len(invalid.Problems) > 0 {
		return &lab.Error{Exit: lab.ExitInvalid, Code: invalid.Code, Message: strings.ReplaceAll(invalid.Problems.Error(), "\n", "; "), Err: err}
	}
	return err
}

// committed returns the files of a branch with those of a commit.
func committed(before fs.FS, files map[string]*scenario.File) (fstest.MapFS, error) {
	after := fstest.MapFS{}
	err := fs.WalkDir(before, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(before, name)
		after[name] = &fstest.MapFile{Data: data, Mode: e.Type() | 0o644}
		return err
	})
	if err != nil {
		return nil, err
	}
	for name, file := range files {
		if delete(after, name); file != nil {
			after[name] = &fstest.MapFile{Data: file.Content, Mode: 0o644}
		}
	}
	return after, nil
}
