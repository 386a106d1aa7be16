package runner

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"homelab/lab"
)

// ProgramVariable names the environment variable with lab's program for the containers, where lab itself is none for Linux.
const ProgramVariable = "LAB_RUNNER_PROGRAM"

// needed returns the files that a program needs to start: none if it is linked statically, else the loader and the libraries of this machine.
func needed(program string) ([]string, error) {
	seen := map[string]bool{}
	var visit func(file string) error
	visit = func(file string) error {
		f, err := elf.Open(file)
		if err != nil {
			return &lab.Error{
				Exit: lab.ExitFailed, Code: "runner_program", Message: file + " is not a Linux program, which the runner needs", Err: err,
				Cure: "GOOS=linux CGO_ENABLED=0 go build -o lab-linux in lab's source, and set " + ProgramVariable + " to that file",
			}
		}
		defer f.Close()
		libraries, err := f.ImportedLibraries()
		if err != nil {
			return err
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				text := make([]byte, p.Filesz)
				if _, err := p.ReadAt(text, 0); err != nil {
					return err
				}
				seen[strings.TrimRight(string(text), "\x00")] = true
			}
		}
		for _, name := range libraries {
			at, err := library(name)
			if err != nil {
				return err
			}
			if !seen[at] {
				seen[at] = true
				if err := visit(at); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := visit(program); err != nil {
		return nil, err
	}
	var files []string
	for name := range seen {
		files = append(files, name)
	}
	slices.Sort(files)
	return files, nil
}

// library finds a library where the loader looks.
func library(name string) (string, error) {
	for _, pattern := range []string{"/lib/*-linux-gnu*", "/usr/lib/*-linux-gnu*", "/lib64", "/usr/lib64", "/lib", "/usr/lib"} {
		found, err := filepath.Glob(filepath.Join(pattern, filepath.Base(name)))
		if err != nil {
			return "", err
		}
		for _, file := range found {
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
				return file, nil
			}
		}
	}
	return "", fmt.Errorf("no library %s on this machine", name)
}
