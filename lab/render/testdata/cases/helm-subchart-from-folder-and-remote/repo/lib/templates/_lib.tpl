{{- define "lib.metadata" -}}
name: {{ .Release.Name }}
{{- end -}}
