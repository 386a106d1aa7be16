package render

import (
	"errors"
	"io/fs"
	"path"

	"sigs.k8s.io/yaml"
)

// override merges the files in which a folder sets options of a source, such as those that Argo CD Image Updater writes.
// https://argo-cd.readthedocs.io/en/stable/user-guide/parameters/#store-overrides-in-git
func (s *Source) override() error {
	names := []string{".argocd-source.yaml"}
	if s.Application != "" {
		names = append(names, ".argocd-source-"+s.Application+".yaml")
	}
	for _, name := range names {
		file := path.Join(s.Path, name)
		data, err := fs.ReadFile(s.FS, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var patch, options map[string]any
		if err == nil {
			err = yaml.Unmarshal(data, &patch)
		}
		if err == nil {
			data, err = yaml.Marshal(s.Source)
		}
		if err == nil {
			err = yaml.Unmarshal(data, &options)
		}
		if err == nil {
			mergePatch(options, patch)
			data, err = yaml.Marshal(options)
		}
		merged := s.Source
		if err == nil {
			merged.Helm, merged.Kustomize, merged.Directory, merged.Plugin = nil, nil, nil, nil
			err = yaml.Unmarshal(data, &merged)
		}
		if err != nil {
			return failed(file, err)
		}
		s.Helm, s.Kustomize, s.Directory, s.Plugin = merged.Helm, merged.Kustomize, merged.Directory, merged.Plugin
	}
	return nil
}

// mergePatch applies a JSON merge patch: null removes a field.
func mergePatch(into, patch map[string]any) {
	for key, v := range patch {
		below, ok := v.(map[string]any)
		switch {
		case v == nil:
			delete(into, key)
		case ok:
			have, _ := into[key].(map[string]any)
			if have == nil {
				have = map[string]any{}
			}
			mergePatch(have, below)
			into[key] = have
		default:
			into[key] = v
		}
	}
}
