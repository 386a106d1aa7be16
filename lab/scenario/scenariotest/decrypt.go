package scenariotest

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab/fluxset"
	"homelab/lab/scenario"
	"homelab/lab/strict"
)

// written returns the manifests of a Kustomization, or why Flux cannot decrypt them.
func (e *Engine) written(ctx context.Context, cluster string, of fluxset.Application) (objects []object, why string, err error) {
	for _, doc := range of.Objects {
		o, err := written(cluster, doc.Node)
		if err != nil {
			return nil, "", err
		}
		if o.content["sops"] != nil {
			keys, err := e.keys(ctx, of)
			if err != nil {
				return nil, "", err
			}
			if err := Decrypt(o.content, keys); err != nil {
				const text = "decryption failed for '%s': failed to decrypt and format '%s/%s' %s data: cannot get sops data key: %s"
				return nil, fmt.Sprintf(text, o.subject.Kind, o.subject.Namespace, o.subject.Name, o.subject.Kind, err), nil
			}
		}
		objects = append(objects, o)
	}
	return objects, "", nil
}

// keys returns the keys of the Secret that a Kustomization decrypts with.
func (e *Engine) keys(ctx context.Context, of fluxset.Application) (string, error) {
	client, err := e.clusters.within(e.hub)
	if err != nil {
		return "", err
	}
	name := strict.Text(of.Manifest, "spec", "decryption", "secretRef", "name")
	r, err := client.Resource(scenario.Subject{Cluster: e.hub, APIVersion: "v1", Kind: "Secret", Namespace: of.Namespace, Name: name})
	if err != nil {
		return "", err
	}
	o, err := r.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", nil // a Kustomization without a key opens nothing
	}
	data, _, _ := unstructured.NestedStringMap(o.Object, "data")
	var keys strings.Builder
	for name, encoded := range data {
		if key, err := base64.StdEncoding.DecodeString(encoded); err == nil && strings.HasSuffix(name, ".agekey") {
			keys.Write(append(key, '\n'))
		}
	}
	return keys.String(), nil
}

// Decrypt decrypts data and stringData of a manifest that SOPS has encrypted for one of the keys of age.
func Decrypt(o map[string]any, keys string) error {
	identities, err := age.ParseIdentities(strings.NewReader(keys))
	if err != nil {
		return err
	}
	list, _, _ := unstructured.NestedSlice(o, "sops", "age")
	for _, one := range list {
		enc, _, _ := unstructured.NestedString(map[string]any{"of": one}, "of", "enc")
		r, err := age.Decrypt(armor.NewReader(strings.NewReader(enc)), identities...)
		if err != nil {
			continue
		}
		key, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		delete(o, "sops")
		return decryptData(o, key)
	}
	return errors.New("none of the keys opens it")
}

func decryptData(o map[string]any, key []byte) error {
	b, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	gcm, err := cipher.NewGCMWithNonceSize(b, 32)
	if err != nil {
		return err
	}
	plain := map[string]any{}
	for _, field := range []string{"data", "stringData"} {
		values, _, _ := unstructured.NestedStringMap(o, field)
		for name, value := range values {
			if value == "" { // SOPS leaves it
				plain[name] = ""
				continue
			}
			parts := strings.Split(strings.TrimSuffix(value, "]"), ",")
			if len(parts) != 5 {
				return fmt.Errorf("%s.%s is not encrypted", field, name)
			}
			var raw [3][]byte
			for i, prefix := range []string{"data:", "iv:", "tag:"} {
				if raw[i], err = base64.StdEncoding.DecodeString(strings.TrimPrefix(parts[i+1], prefix)); err != nil {
					return err
				}
			}
			out, err := gcm.Open(nil, raw[1], bytes.Join([][]byte{raw[0], raw[2]}, nil), []byte(field+":"+name+":"))
			if err != nil {
				return err
			}
			if plain[name] = string(out); field == "stringData" {
				plain[name] = base64.StdEncoding.EncodeToString(out)
			}
		}
		delete(o, field)
	}
	o["data"] = plain
	return nil
}
