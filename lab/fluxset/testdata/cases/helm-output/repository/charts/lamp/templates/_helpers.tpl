{{- define "lamp.name" }}{{ .Release.Name }}-lamp{{ end }}
