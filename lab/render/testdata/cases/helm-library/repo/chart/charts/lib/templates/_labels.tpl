{{- define "lib.labels" -}}
app: {{ .Release.Name }}
chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}
{{- define "lib.merge" -}}
{{- $top := first . -}}
{{- $over := fromYaml (include (index . 1) $top) -}}
{{- $base := fromYaml (include (index . 2) $top) -}}
{{- toYaml (merge $over $base) -}}
{{- end -}}
