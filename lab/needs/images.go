package needs

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab/render"
	"homelab/lab/strict"
)

// Images returns the images of objects.
func Images(objects []render.Document) []string {
	var list []string
	for _, c := range Containers(objects...) {
		if ref := strict.Text(c, "image"); ref != "" {
			list = appendNew(list, ref)
		}
	}
	return list
}

// AlwaysPulled returns the images of objects that nodes pull even if they have them.
func AlwaysPulled(objects []render.Document) []string {
	var list []string
	for _, c := range Containers(objects...) {
		image, policy := strict.Text(c, "image"), strict.Text(c, "imagePullPolicy")
		_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
		if image != "" && (policy == "Always" || policy == "" && (tag == "" || tag == "latest") && !strings.Contains(image, "@")) {
			list = append(list, image)
		}
	}
	return list
}

// Containers returns the containers of the pods of objects of any kind.
func Containers(objects ...render.Document) []*yaml.Node {
	var list []*yaml.Node
	for _, o := range objects {
		for _, keys := range [][]any{{}, {"template", "spec"}, {"jobTemplate", "spec", "template", "spec"}} {
			pod := strict.Get(strict.Get(o.Node, "spec"), keys...)
			list = append(list, slices.Concat(sequence(pod, "initContainers"), sequence(pod, "containers"))...)
		}
	}
	return list
}
