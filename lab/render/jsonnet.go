package render

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/google/go-jsonnet"
	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/strict"
)

const jsonnetFile = ".jsonnet"

// jsonnet evaluates a file to one object or a list.
func (s Source) jsonnet(file string, o appset.Jsonnet, b *budget) ([]Document, error) {
	vm := jsonnet.MakeVM()
	set := func(vars []appset.JsonnetVar, text, code func(name, value string)) {
		for _, v := range vars {
			if v.Code {
				code(v.Name, s.substitute(v.Value))
			} else {
				text(v.Name, s.substitute(v.Value))
			}
		}
	}
	set(o.TLAs, vm.TLAVar, vm.TLACode)
	set(o.ExtVars, vm.ExtVar, vm.ExtCode)
	libs := []string{s.Path}
	for _, lib := range o.Libs {
		libs = append(libs, path.Join(".", lib))
	}
	slices.Reverse(libs) // the last wins
	i := &importer{FS: s.FS, libs: libs, budget: b, read: map[string]jsonnet.Contents{}}
	vm.Importer(i)

	text, err := evaluate(vm, file, cmp.Or(s.Within, maxTime))
	switch {
	case i.endless != "":
		return nil, remote(lab.Position{File: i.endless}, i.endless, "uses tailstrict, which is not evaluated here")
	case err != nil:
		return nil, failed(file, err)
	}
	made, err := documents(file, text, []int{})
	var docs []Document
	for _, d := range made {
		list := []*yaml.Node{d.Node}
		if d.Kind == yaml.SequenceNode {
			list = d.Content
		}
		for _, n := range list {
			switch {
			case strict.IsNull(n):
			case strict.Text(n, "kind") == "":
				return nil, failed(file, errors.New("evaluates to an object without kind"))
			default:
				docs = append(docs, Document{Node: n, File: file})
			}
		}
	}
	return docs, err
}

// evaluate returns when time is up, even though an evaluation cannot be stopped.
func evaluate(vm *jsonnet.VM, file string, within time.Duration) (string, error) {
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.err = fmt.Errorf("jsonnet: %v", p)
			}
			done <- r
		}()
		r.text, r.err = vm.EvaluateFile(file)
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-time.After(within):
		return "", fmt.Errorf("is not evaluated within %s", within)
	}
}

// importer reads imports relative to the importing file, then in libraries. It refuses files with tailstrict: such calls exhaust Go's stack, which ends the program.
type importer struct {
	fs.FS
	libs    []string
	budget  *budget
	read    map[string]jsonnet.Contents
	endless string // refused file
}

func (i *importer) Import(from, name string) (jsonnet.Contents, string, error) {
	for _, dir := range append([]string{path.Dir(from)}, i.libs...) {
		file := path.Join(dir, name)
		if c, known := i.read[file]; known {
			return c, file, nil
		}
		if !fs.ValidPath(file) || path.IsAbs(name) || !isFile(i.FS, file) {
			continue
		}
		data, err := i.budget.read(i.FS, file)
		if err != nil {
			return jsonnet.Contents{}, "", err
		}
		if bytes.Contains(data, []byte("tailstrict")) {
			i.endless = file
			return jsonnet.Contents{}, "", errors.New("uses tailstrict")
		}
		i.read[file] = jsonnet.MakeContentsRaw(data)
		return i.read[file], file, nil
	}
	return jsonnet.Contents{}, "", fmt.Errorf("no file %s", name)
}
