local sum(n, acc) = if n == 0 then acc else sum(n - 1, acc + n) tailstrict;
{apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: 'a'}, data: {sum: std.toString(sum(100, 0))}}
