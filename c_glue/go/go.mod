module allocanary.example/go

go 1.21
