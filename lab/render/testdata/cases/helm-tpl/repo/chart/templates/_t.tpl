{{- define "helper" }}[{{ .Values.color }}]{{ end -}}
