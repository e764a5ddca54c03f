module cell-go

go 1.21
