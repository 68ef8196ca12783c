//! The connection to a cluster: address, credentials, namespace, and the check of rights.

use http_body_util::{BodyExt, Limited};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{ListParams, PostParams};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use metier_measure::http_get::{HttpPage, HttpUrl, MAX_BODY_BYTES};
use metier_measure::spec::PodSpec;

use crate::Error;
use crate::error::{api_message, error_chain};

/// Timeout of a request to the API server, except for watch and log streams.
const CONNECT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// Timeout of a page of a pod.
const PAGE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(3);

/// Rights that a run needs: verb, group, resource, subresource.
const REQUIRED_RIGHTS: [(&str, &str, &str, &str); 6] = [
    ("create", "batch", "jobs", ""),
    ("delete", "batch", "jobs", ""),
    ("list", "batch", "jobs", ""),
    ("list", "", "pods", ""),
    ("watch", "", "pods", ""),
    ("get", "", "pods", "log"),
];

/// A cluster, in one namespace.
#[derive(Clone)]
pub struct ClusterClient {
    client: Client,
    /// The namespace of all objects.
    pub namespace: String,
}

impl ClusterClient {
    /// Connects with the kubeconfig and context of the specification, else like `kubectl`, else
    /// with the service account of the current pod.
    pub async fn connect(pod: &PodSpec) -> Result<Self, Error> {
        let mut config = load_config(pod).await?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // A watch stream or log may be silent for as long as the run.
        config.read_timeout = None;
        // Plain HTTP, such as that of `kubectl proxy`, needs no authority: without a list of them
        // no client could be made on a host that has none.
        if config.cluster_url.scheme_str() == Some("http") {
            config.root_cert.get_or_insert_default();
        }
        let namespace = pod.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client =
            Client::try_from(config).map_err(|error| Error::Cluster { reason: error_chain(&error) })?;
        Ok(Self { client, namespace })
    }

    /// Jobs of the namespace.
    pub fn jobs(&self) -> Api<Job> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Deployments of the namespace.
    pub fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// ConfigMaps of the namespace.
    pub fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Pods of the namespace.
    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Pods of all namespaces.
    pub fn pods_everywhere(&self) -> Api<Pod> {
        Api::all(self.client.clone())
    }

    /// All nodes, or `None` without the right to list them.
    pub async fn list_nodes(&self) -> Result<Option<Vec<Node>>, Error> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        match nodes.list(&ListParams::default()).await {
            Ok(list) => Ok(Some(list.items)),
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(None),
            Err(error) => Err(Error::api("listing the nodes of the cluster")(error)),
        }
    }

    /// One node, or `None` if it does not exist.
    pub async fn find_node(&self, name: &str) -> Result<Option<Node>, Error> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.get_opt(name).await.map_err(Error::api(format!("looking at node {name}")))
    }

    /// Fetches a page of a pod through the API server. The error is the reason for the record.
    pub async fn read_pod_page(&self, pod: &str, url: &HttpUrl, accept: &str) -> Result<HttpPage, String> {
        tokio::time::timeout(PAGE_TIMEOUT, self.request_pod_page(pod, url, accept))
            .await
            .unwrap_or_else(|_| Err(format!("it took longer than {} s", PAGE_TIMEOUT.as_secs())))
    }

    async fn request_pod_page(&self, pod: &str, url: &HttpUrl, accept: &str) -> Result<HttpPage, String> {
        let path = format!("/api/v1/namespaces/{}/pods/{pod}:{}/proxy{}", self.namespace, url.port, url.path);
        let request = hyper::Request::get(path).header("accept", accept).body(Body::empty());
        let request = request.map_err(|error| format!("its path is none: {error}"))?;
        let answer = self.client.send(request).await.map_err(|error| api_message(&error))?;
        let status = answer.status();
        let media_type = answer.headers().get("content-type").and_then(|text| text.to_str().ok());
        let media_type = media_type.unwrap_or_default().to_string();
        let body = Limited::new(answer.into_body(), MAX_BODY_BYTES).collect().await;
        let body = body.map_err(|error| error_chain(&*error))?.to_bytes().to_vec();
        if status.as_u16() == 200 {
            return Ok(HttpPage { media_type, body });
        }
        // The API server's own message, if the response is not from the page.
        let value: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
        let text = value.as_ref().and_then(|current| current["message"].as_str()).unwrap_or_default();
        Err(format!("it answered {}; want 200. {text}", status.as_u16()).trim_end_matches(". ").to_string())
    }

    /// Checks each right that a run needs. The first missing right is the error.
    pub async fn check_rights(&self) -> Result<(), Error> {
        for (verb, group, resource, subresource) in REQUIRED_RIGHTS {
            if !self.is_allowed(verb, group, resource, subresource).await? {
                let resource = if subresource.is_empty() { resource } else { "pods/log" };
                return Err(Error::Forbidden { verb, resource, namespace: self.namespace.clone() });
            }
        }
        Ok(())
    }

    /// Whether this account has a right in the namespace.
    pub async fn is_allowed(
        &self,
        verb: &str,
        group: &str,
        resource: &str,
        subresource: &str,
    ) -> Result<bool, Error> {
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let attributes = ResourceAttributes {
            namespace: Some(self.namespace.clone()),
            verb: Some(verb.into()),
            group: Some(group.into()),
            resource: Some(resource.into()),
            subresource: (!subresource.is_empty()).then(|| subresource.into()),
            ..ResourceAttributes::default()
        };
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let answer = reviews
            .create(&PostParams::default(), &review)
            .await
            .map_err(Error::api("asking the API server what this account may do"))?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

async fn load_config(pod: &PodSpec) -> Result<Config, Error> {
    let options = KubeConfigOptions { context: pod.context.clone(), ..KubeConfigOptions::default() };
    let wrong = |error: &dyn std::error::Error| Error::Cluster { reason: error_chain(error) };
    if let Some(path) = &pod.kubeconfig {
        let file = Kubeconfig::read_from(path).map_err(|error| Error::Cluster {
            reason: format!("cannot use kubeconfig {}: {}", path.display(), error_chain(&error)),
        })?;
        return Config::from_custom_kubeconfig(file, &options).await.map_err(|error| wrong(&error));
    }
    match Config::from_kubeconfig(&options).await {
        Ok(config) => Ok(config),
        // A requested context must not fall back to another cluster.
        Err(error) if pod.context.is_some() => Err(wrong(&error)),
        Err(error) => Config::incluster().map_err(|_| wrong(&error)),
    }
}
