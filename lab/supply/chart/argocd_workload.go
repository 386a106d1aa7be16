package chart

import (
	"errors"
	"fmt"
	"strings"
)

// workload adds a component's values to its Deployment or StatefulSet.
func workload(c component, kind string, doc map[string]any) error {
	spec := doc["spec"].(map[string]any)
	if c.cond == "" { // like upstream, the others run one replica
		spec["replicas"] = inline(c.values("replicas"))
	}
	spec["revisionHistoryLimit"] = inline(".Values.global.revisionHistoryLimit")
	if kind == "StatefulSet" {
		spec["revisionHistoryLimit"] = 5 // upstream's value for the controller
	}
	template, ok := spec["template"].(map[string]any)
	if !ok {
		return errors.New("has no pod template")
	}
	template["metadata"] = map[string]any{
		"labels":      include{"argo-cd.podLabels", c.arg()},
		"annotations": include{"argo-cd.podAnnotations", c.arg()},
	}
	if c.key == "redis" { // reads no ConfigMap, so a change must not drop its cache
		template["metadata"].(map[string]any)["annotations"] = with("(merge (dict) .Values.redis.podAnnotations .Values.global.podAnnotations)")
	}
	pod := template["spec"].(map[string]any)
	containers, ok := pod["containers"].([]any)
	if !ok || len(containers) != 1 {
		return fmt.Errorf("has %d containers where one is known", len(containers))
	}
	container(c, containers[0].(map[string]any))
	pod["containers"] = append(containers, spread(c.values("extraContainers")))

	var inits []any
	if list, ok := pod["initContainers"].([]any); ok {
		for _, x := range list {
			m := x.(map[string]any)
			m["image"], m["imagePullPolicy"] = argoImage(), inline(".Values.global.image.imagePullPolicy")
			if m["name"] == "secret-init" {
				// Redis' password is created by Argo CD's own command, not by upstream's Job before the release: the release is ready sooner, with the same Secret.
				inits = append(inits, when{".Values.redisSecretInit.enabled", m})
				continue
			}
			inits = append(inits, m)
		}
	}
	pod["initContainers"] = append(inits, spread(c.values("initContainers")))
	switch {
	case len(inits) == 0:
		pod["initContainers"] = with(c.values("initContainers"))
	case c.key == "redis":
		// An empty list must be omitted: a null would be a change in upgrades.
		pod["initContainers"] = when{"or .Values.redisSecretInit.enabled .Values.redis.initContainers", pod["initContainers"]}
	}

	volumes, _ := pod["volumes"].([]any)
	guard(volumes)
	if len(volumes) > 0 {
		pod["volumes"] = append(volumes, spread(c.list("volumes")))
	} else {
		pod["volumes"] = with(c.list("volumes"))
	}
	pod["affinity"] = fallback{c.values("affinity"), pod["affinity"]}
	pod["nodeSelector"] = with(choose(c.values("nodeSelector"), ".Values.global.nodeSelector"))
	pod["tolerations"] = with(choose(c.values("tolerations"), ".Values.global.tolerations"))
	pod["imagePullSecrets"] = with(choose(c.values("imagePullSecrets"), ".Values.global.imagePullSecrets"))
	pod["hostAliases"] = with(".Values.global.hostAliases")
	priority := choose(c.values("priorityClassName"), ".Values.global.priorityClassName")
	pod["priorityClassName"] = when{priority, inline(priority)}
	pod["terminationGracePeriodSeconds"] = inline(c.values("terminationGracePeriodSeconds"))
	return nil
}

func choose(own, global string) string { return "(" + own + " | default " + global + ")" }

// container adds a component's values to its main container.
func container(c component, m map[string]any) {
	m["image"] = inline(fmt.Sprintf(`include "argo-cd.image" (dict "context" $ "image" .Values.%s.image) | quote`, c.key))
	m["imagePullPolicy"] = inline(".Values." + c.key + ".image.imagePullPolicy | default .Values.global.image.imagePullPolicy")
	if args, _ := m["args"].([]any); len(args) > 0 {
		m["args"] = append(args, spread(c.values("extraArgs")))
	} else {
		m["args"] = with(c.values("extraArgs"))
	}
	m["resources"] = block(c.values("resources"))

	env, _ := m["env"].([]any)
	guard(env)
	for i, x := range env {
		item, ok := x.(map[string]any)
		if !ok {
			continue
		}
		switch item["name"] {
		case "ARGOCD_CONTROLLER_REPLICAS":
			item["value"] = inline(c.values("replicas") + " | quote")
		case "REDIS_PASSWORD":
			// Like upstream: without redisSecretInit, users may run their own Redis without a password.
			ref := item["valueFrom"].(map[string]any)["secretKeyRef"].(map[string]any)
			ref["optional"] = inline("not .Values.redisSecretInit.enabled")
		}
		env[i] = item
	}
	m["env"] = append(env, spread("concat .Values.global.env "+c.list("env")))
	m["envFrom"] = with(c.list("envFrom"))
	mounts, _ := m["volumeMounts"].([]any)
	guard(mounts)
	if len(mounts) > 0 {
		m["volumeMounts"] = append(mounts, spread(c.list("volumeMounts")))
	} else {
		m["volumeMounts"] = with(c.list("volumeMounts"))
	}
	for _, name := range []string{"readinessProbe", "livenessProbe"} {
		if probe, ok := m[name].(map[string]any); ok {
			for field := range probeDefaults {
				probe[field] = inline(c.values(name + "." + field))
			}
		}
	}
}

// probeDefaults are the upstream chart's defaults of all probes.
var probeDefaults = map[string]any{"failureThreshold": 3, "initialDelaySeconds": 10, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1}

func argoImage() inline {
	return `include "argo-cd.image" (dict "context" $ "image" .Values.global.image) | quote`
}

// guard makes other components' references to dex conditional on its rendering: variables, volumes and mounts.
func guard(items []any) {
	for i, x := range items {
		m, ok := x.(map[string]any)
		if !ok {
			continue
		}
		name, _ := m["name"].(string)
		if strings.Contains(name, "_DEX_SERVER") || name == "argocd-dex-server-tls" {
			items[i] = when{".Values.dex.enabled", m}
		}
	}
}

// service adds a component's values to one of its Services.
func service(c component, doc map[string]any, metrics bool) {
	spec := doc["spec"].(map[string]any)
	meta := doc["metadata"].(map[string]any)
	if c.key != "server" || metrics {
		return
	}
	meta["annotations"] = with(".Values.server.service.annotations")
	spec["type"] = inline(".Values.server.service.type")
	isNodePort := `eq .Values.server.service.type "NodePort"`
	for _, x := range spec["ports"].([]any) {
		port := x.(map[string]any)
		for name, field := range map[string]string{"http": "Http", "https": "Https"} {
			if port["name"] == name {
				port["port"] = inline(".Values.server.service.servicePort" + field)
				port["nodePort"] = when{isNodePort, inline(".Values.server.service.nodePort" + field)}
			}
		}
	}
}
