{{- define "sets.name" -}}{{ printf "%s-%s" .Release.Name .name }}{{- end -}}
