locals {
  registry = "registry.example.com/shop"
  version  = "1.4.2"
}
