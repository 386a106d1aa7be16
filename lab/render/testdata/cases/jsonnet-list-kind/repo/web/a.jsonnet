{apiVersion: 'v1', kind: 'List', items: [{apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: n}} for n in ['a', 'b']]}
