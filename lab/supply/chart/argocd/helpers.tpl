{{- /* Names and labels come out as those of the upstream chart do, so that what reads them (docs, selectors, dashboards) need not care which was installed. */ -}}
{{- define "argo-cd.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "argo-cd.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Labels of one object. Takes a dict: context, component ("" for what belongs to all). */ -}}
{{- define "argo-cd.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .context.Chart.Name .context.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "argo-cd.selectorLabels" . }}
app.kubernetes.io/managed-by: {{ .context.Release.Service }}
app.kubernetes.io/part-of: argocd
app.kubernetes.io/version: {{ default .context.Chart.AppVersion .context.Values.global.image.tag | quote }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- with .context.Values.global.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "argo-cd.selectorLabels" -}}
{{- with (.component | default .name) -}}
app.kubernetes.io/name: {{ include "argo-cd.name" $.context }}-{{ . }}
{{ end -}}
app.kubernetes.io/instance: {{ .context.Release.Name }}
{{- end -}}

{{- /* Labels of a pod: those of its component and the user's. Takes a dict: context, component, values. */ -}}
{{- define "argo-cd.podLabels" -}}
{{ include "argo-cd.labels" . }}
{{- with (merge (dict) (.values.podLabels | default dict) (.context.Values.global.podLabels | default dict)) }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* Annotations of a pod. The checksums restart pods when the ConfigMaps that they read at start change. */ -}}
{{- define "argo-cd.podAnnotations" -}}
checksum/cmd-params: {{ include "argo-cd.config.params" .context | sha256sum }}
checksum/cm: {{ include "argo-cd.config.cm" .context | sha256sum }}
{{- with (merge (dict) (.values.podAnnotations | default dict) (.context.Values.global.podAnnotations | default dict)) }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "argo-cd.image" -}}
{{- $global := .context.Values.global.image -}}
{{- default $global.repository .image.repository }}:{{ default (default .context.Chart.AppVersion $global.tag) .image.tag -}}
{{- end -}}

{{- define "argo-cd.config.cm" -}}
{{- $presets := dict "url" (printf "https://%s" .Values.global.domain) -}}
{{- range $key, $value := mergeOverwrite $presets (omit .Values.configs.cm "create" "annotations") }}
{{- $text := $value | toString }}
{{- if and (not (kindIs "invalid" $value)) (ne $text "") }}
{{ $key }}: {{ $text | toYaml | indent 2 | trim }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "argo-cd.config.params" -}}
{{- $full := include "argo-cd.fullname" . -}}
{{- $presets := dict
      "repo.server" (printf "%s-repo-server:8081" $full)
      "redis.server" (printf "%s-redis:6379" $full)
      "server.repo.server.strict.tls" "false"
      "applicationsetcontroller.enable.leader.election" (gt (.Values.applicationSet.replicas | int64) 1) -}}
{{- if .Values.dex.enabled -}}
{{- $tls := index .Values.configs.params "dexserver.disable.tls" | toString | eq "true" | ternary "http" "https" -}}
{{- $_ := set $presets "server.dex.server" (printf "%s://%s-dex-server:5556" $tls $full) -}}
{{- $_ := set $presets "server.dex.server.strict.tls" "false" -}}
{{- end -}}
{{- range $component := tuple "applicationsetcontroller" "controller" "server" "reposerver" -}}
{{- $_ := set $presets (printf "%s.log.format" $component) $.Values.global.logging.format -}}
{{- $_ := set $presets (printf "%s.log.level" $component) $.Values.global.logging.level -}}
{{- end -}}
{{- range $key, $value := mergeOverwrite $presets (omit .Values.configs.params "create" "annotations") }}
{{- if not (kindIs "invalid" $value) }}
{{ $key }}: {{ toString $value | toYaml }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "argo-cd.crd.annotations" -}}
{{- $keep := .Values.crds.keep | ternary (dict "helm.sh/resource-policy" "keep") dict -}}
{{- toYaml (merge $keep (.Values.crds.annotations | default dict)) }}
{{- end -}}

{{- define "argo-cd.crd.labels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/part-of: argocd
{{- with .context.Values.crds.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}
