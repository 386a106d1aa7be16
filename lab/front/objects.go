package front

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab"
	"homelab/lab/front/proxy"
)

// nonroot is the program's user and group ID.
const nonroot = int64(65532)

// Objects returns a front's objects in creation order. Fields that the API server defaults are omitted.
func Objects(c Config) ([]*unstructured.Unstructured, error) {
	config, secrets, err := c.Marshal()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	h := sha256.New()
	for _, file := range [][]byte{config, secrets} {
		fmt.Fprintf(h, "%d:%s\n", len(file), file)
	}
	return []*unstructured.Unstructured{
		c.object("v1", "ConfigMap", Name, "data", map[string]any{configFile: string(config)}),
		c.object("v1", "Secret", Name, "data", map[string]any{secretsFile: encode(secrets)}),
		c.object("apps/v1", "Deployment", Name, "spec", c.deployment(hex.EncodeToString(h.Sum(nil)))),
		c.object("v1", "Service", Name, "spec", service("ClusterIP", port("proxy", proxyPort), port("ssh", sshPort))),
		c.object("v1", "Service", Name+"-webhook", "spec", service("NodePort", c.webhook())),
	}, nil
}

func (c Config) object(version, kind, name, field string, value any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name, "namespace": c.Namespace, "labels": c.labels()}, field: value,
	}}
}

func selector() map[string]any { return map[string]any{"app.kubernetes.io/name": Name} }

func (c Config) labels() map[string]any {
	labels := selector()
	labels[lab.LabelName], labels[lab.LabelPart] = c.Lab, "front"
	return labels
}

func service(kind string, ports ...any) map[string]any {
	return map[string]any{"type": kind, "selector": selector(), "ports": ports}
}

func port(name string, number int64) map[string]any {
	return map[string]any{"name": name, "port": number, "targetPort": name, "protocol": "TCP"}
}

func (c Config) webhook() map[string]any {
	p := port("webhook", webhookPort)
	if c.NodePort != 0 {
		p["nodePort"] = int64(c.NodePort)
	}
	return p
}

// deployment returns the Deployment's spec. inputs is a hash of the program's files: they are read only at startup, so a change must roll out new pods.
func (c Config) deployment(inputs string) map[string]any {
	return map[string]any{
		"replicas": int64(1), "revisionHistoryLimit": int64(1),
		"selector": map[string]any{"matchLabels": selector()},
		"template": map[string]any{
			"metadata": map[string]any{"labels": c.labels(), "annotations": map[string]any{lab.LabelInputs: inputs}},
			"spec": map[string]any{
				"automountServiceAccountToken": false, "enableServiceLinks": false, "terminationGracePeriodSeconds": int64(30),
				"securityContext": map[string]any{
					"runAsNonRoot": true, "runAsUser": nonroot, "runAsGroup": nonroot, "fsGroup": nonroot, "seccompProfile": map[string]any{"type": "RuntimeDefault"},
				},
				"containers": []any{c.container()},
				"volumes": []any{
					map[string]any{"name": "config", "configMap": map[string]any{"name": Name}},
					map[string]any{"name": "secrets", "secret": map[string]any{"secretName": Name, "defaultMode": int64(0o440)}},
				},
			},
		},
	}
}

func (c Config) container() map[string]any {
	health := func(period, failures int64) map[string]any {
		return map[string]any{
			"httpGet":       map[string]any{"path": proxy.HealthPath, "port": "webhook"},
			"periodSeconds": period, "timeoutSeconds": int64(3), "failureThreshold": failures,
		}
	}
	return map[string]any{
		"name": Component, "image": c.Image,
		"imagePullPolicy": "Never", // a registry's image of this name is not ours
		"args":            []any{"-config=/etc/front/" + configFile, "-secrets=/etc/front-secrets/" + secretsFile},
		"ports": []any{
			map[string]any{"name": "proxy", "containerPort": int64(proxyPort), "protocol": "TCP"},
			map[string]any{"name": "ssh", "containerPort": int64(sshPort), "protocol": "TCP"},
			map[string]any{"name": "webhook", "containerPort": int64(webhookPort), "protocol": "TCP"},
		},
		"readinessProbe": health(1, 30),
		"livenessProbe":  health(20, 6),
		"resources":      map[string]any{"requests": map[string]any{"cpu": "5m", "memory": "16Mi"}},
		"securityContext": map[string]any{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": map[string]any{"drop": []any{"ALL"}},
		},
		"volumeMounts": []any{
			map[string]any{"name": "config", "mountPath": "/etc/front", "readOnly": true},
			map[string]any{"name": "secrets", "mountPath": "/etc/front-secrets", "readOnly": true},
		},
	}
}
