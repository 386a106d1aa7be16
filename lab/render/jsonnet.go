package render

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"

	"github.com/google/go-jsonnet"
	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/strict"
)

const jsonnetFile = ".jsonnet"

// jsonnet evaluates a file to one object or a list.
func (s Source) jsonnet(file string, o appset.Jsonnet, b *Budget) ([]Document, error) {
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

	var arguments []string
	for _, v := range o.TLAs {
		if !identifier.MatchString(v.Name) {
			return nil, failed(file, fmt.Errorf("%q is not the name of an argument", v.Name))
		}
		arguments = append(arguments, v.Name)
	}
	text, err := evaluate(vm, walked(file, arguments), b)
	switch {
	case i.endless != "":
		return nil, remote(lab.Position{File: i.endless}, i.endless, "uses tailstrict, which is not evaluated here")
	case Exceeds(i.failed):
		return nil, i.failed
	case err != nil:
		return nil, jsonnetError(file, err)
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
			case untyped(n):
				return nil, failed(file, errors.New("evaluates to an object without kind"))
			default:
				docs = append(docs, Document{Node: n, File: file})
			}
		}
	}
	return docs, err
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// importer reads imports relative to the importing file, then in libraries. It refuses files with tailstrict: such calls exhaust Go's stack, which ends the program.
type importer struct {
	fs.FS
	libs    []string
	budget  *Budget
	read    map[string]jsonnet.Contents
	endless string // refused file
	failed  error  // of a file that exceeds a limit
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
		if err == nil {
			err = shallow(data)
		}
		if err != nil {
			if i.failed == nil {
				i.failed = failed(file, err)
			}
			return jsonnet.Contents{}, "", err
		}
		if bytes.Contains(data, []byte("tailstrict")) {
			i.endless = file
			return jsonnet.Contents{}, "", errors.New("uses tailstrict")
		}
		if ext := path.Ext(file); ext == jsonnetFile || ext == ".libsonnet" {
			data = append([]byte(bounded), data...)
		}
		i.read[file] = jsonnet.MakeContentsRaw(data)
		return i.read[file], file, nil
	}
	return jsonnet.Contents{}, "", fmt.Errorf("no file %s", name)
}
